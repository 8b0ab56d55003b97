"""Files of models and checkpoints: arrays as safetensors, the rest as JSON, never pickle."""

from equipoise.storage.atomic import checked_target as checked_target
from equipoise.storage.atomic import write_atomically as write_atomically
from equipoise.storage.model_file import CheckpointFile as CheckpointFile
from equipoise.storage.model_file import Contents as Contents
from equipoise.storage.model_file import from_json as from_json
from equipoise.storage.model_file import holds as holds
from equipoise.storage.model_file import made as made
from equipoise.storage.model_file import read_model_file as read_model_file
from equipoise.storage.model_file import refuse_contents as refuse_contents
from equipoise.storage.model_file import to_json as to_json
from equipoise.storage.model_file import write_model_file as write_model_file
