"""The engine: everything that trains goes through :func:`run`, K members at once."""

from equipoise.training.data import BatchStream as BatchStream
from equipoise.training.data import Member as Member
from equipoise.training.data import RowSet as RowSet
from equipoise.training.data import TrainingData as TrainingData
from equipoise.training.engine import Phase as Phase
from equipoise.training.engine import Supervision as Supervision
from equipoise.training.engine import Trained as Trained
from equipoise.training.engine import phases_of as phases_of
from equipoise.training.engine import run_phase as run_phase
from equipoise.training.engine import solved as solved
from equipoise.training.engine import train as train
from equipoise.training.health import Health as Health
from equipoise.training.loop import History as History
from equipoise.training.loop import Method as Method
from equipoise.training.loop import NetworkStep as NetworkStep
from equipoise.training.loop import Objective as Objective
from equipoise.training.loop import PredictorStep as PredictorStep
from equipoise.training.loop import TrainingSettings as TrainingSettings
from equipoise.training.loop import run as run
from equipoise.training.optimizers import OptimizerSettings as OptimizerSettings
from equipoise.training.optimizers import minimize as minimize
from equipoise.training.predictor import TASKS as TASKS
from equipoise.training.predictor import Predictor as Predictor
from equipoise.training.predictor import Task as Task
from equipoise.training.progress import Callback as Callback
from equipoise.training.progress import Progress as Progress
