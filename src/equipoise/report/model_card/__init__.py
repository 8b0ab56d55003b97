"""Model cards: what a chosen model is, how it did on test rows, and what its owner must add.

The fields are those of two templates. Hugging Face: metadata in YAML (license, tags, library_name,
pipeline_tag, metrics, model-index) above the sections Model Details, Uses, Bias, Risks, and
Limitations, Training Details, Evaluation and Technical Specifications
(https://huggingface.co/docs/hub/model-cards and
https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/templates/modelcard_template.md).
Google's Model Card Toolkit: JSON of model_details, model_parameters, quantitative_analysis and
considerations (schema 0.0.2,
https://github.com/tensorflow/model-card-toolkit/tree/main/model_card_toolkit/schema; its Python
interface has confidence_interval with lower_bound and upper_bound beside them). Both go back to
Mitchell et al. (2019), Model Cards for Model Reporting.
"""

from equipoise.report.model_card.as_json import to_json
from equipoise.report.model_card.as_markdown import to_markdown
from equipoise.report.model_card.card import AssessedAttribute, ModelCard
from equipoise.report.model_card.gathering import model_card

__all__ = ["AssessedAttribute", "ModelCard", "model_card", "to_json", "to_markdown"]
