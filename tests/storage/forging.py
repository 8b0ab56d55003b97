"""Saved files with one thing changed and the checksum made right again, and what becomes of them.

Run as a program it is the child process that meets the forged files: under a memory limit, with
a time limit for each file. It prints one line of JSON for every file that was neither refused in
words nor loaded as a model that answers.
"""

import contextlib
import hashlib
import io
import json
import random
import resource
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors
import safetensors.numpy
from tiny_models import ROWS, fitted, labels, mixed_frame

from equipoise import (
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairFrontier,
    load,
)
from equipoise.errors import InputError
from tests.composing import composed

#: Memory that a forged file may make a program take beyond what it has, and seconds.
ROOM = 500_000_000
SECONDS = 10
KEYS = ("equipoise_model", "equipoise_checkpoint")
#: Tiny models by the name of their file.
SUBJECTS = {
    "classifier": "two classes, pandas",
    "three classes": "three classes, polars",
    "regressor": "numbers, array, minmax",
    "linear": "numbers, pandas, linear",
    "representation": "representation",
    "batch norm": "the paper's network",
}
#: Enough that parts of a frontier's rows can be judged by the gap.
PEOPLE = 400


def attributes(n=PEOPLE):
    rng = np.random.default_rng(2)
    return {"age": rng.normal(size=n), "sex": rng.choice(["f", "m"], n)}


def numbers(n=PEOPLE):
    return pd.DataFrame(np.random.default_rng(3).normal(size=(n, 3)), columns=list("abc"))


def outcome(n=PEOPLE):
    """Two classes that no column gives away."""
    return np.random.default_rng(4).normal(size=n) + numbers(n)["a"] > 0


def short_fit(name, path, *, resume):
    """A run with a checkpoint, ended by its callback the first time."""
    tiny = {"hidden": (3,), "critic_hidden": (3,), "random_state": 0}
    if name == "checkpoint":
        model = FairClassifier(strength=0.5, iterations=60, **tiny)
    else:
        tiny["boosting"] = {"rounds": 3, "lightgbm": {"num_leaves": 3}}
        model = composed(
            strengths=(0.0, 0.5),
            seeds=1,
            iterations=4,
            evaluate_every=2,
            evaluate_every_rounds=2,
            predictor="both",
            **tiny,
        )
    told = []

    def enough(progress):
        told.append(progress)
        return len(told) == (1 if name == "checkpoint" else 3)

    model.fit(
        numbers(),
        outcome(),
        sensitive_features={"age": attributes()["age"]},
        checkpoint=path,
        checkpoint_every=0,
        resume=resume,
        callback=None if resume else enough,
    )
    return model


def save_subjects(folder):
    """Save one of every kind of file; return their names."""
    frame, rows = mixed_frame(), numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in SUBJECTS.items():
            fitted(model)[0].save(folder / name)
        method = FairClassifier(method="scutari", strength=0.5, random_state=0)
        method.fit(rows, outcome(), sensitive_features=attributes()).save(folder / "scutari")
        aware = FairClassifier(
            iterations=12, hidden=(3,), sensitive_at_prediction=True, random_state=0
        )
        aware.fit(rows, outcome(), sensitive_features=attributes()).save(folder / "aware")
        vote = FairClassifier(method="agarwal", strength=0.5, random_state=0)
        group = {"sex": attributes()["sex"]}
        vote.fit(rows, outcome(), sensitive_features=group).save(folder / "agarwal")
        trees = {"rounds": 4, "strength": 0, "random_state": 0, "lightgbm": {"num_leaves": 4}}
        FairBoostingClassifier(**trees).fit(frame, labels()).save(folder / "trees")
        FairBoostingRegressor(**trees).fit(rows, rows["a"]).save(folder / "tree numbers")
        frontier = composed(
            strengths=(0.0, 0.5),
            seeds=2,
            ensemble=True,
            iterations=20,
            evaluate_every=10,
            hidden=(3,),
            predictor="both",
            boosting={"rounds": 4, "lightgbm": {"num_leaves": 4}},
            evaluate_every_rounds=2,
            random_state=0,
        )
        frontier.fit(rows, outcome(), sensitive_features=attributes())
        frontier.save(folder / "frontier")
        for name in ("checkpoint", "frontier checkpoint"):
            short_fit(name, folder / name, resume=False)
    return sorted(path.name for path in folder.iterdir())


def answer(name, path):
    """Load a file and ask it everything that a model may be asked."""
    model = short_fit(name, path, resume=True) if name.endswith("checkpoint") else load(path)
    if isinstance(model, FairFrontier):
        print(model.table(), model.members(), model.front(None, "age"), file=io.StringIO())
        selection = model.select(max_gap=1.0, draws=5)
        print(selection, file=io.StringIO())
        assert len(selection.model.predict(numbers(5))) == 5
        return
    print(model.health_, model.sensitive_, file=io.StringIO())
    if name in SUBJECTS:
        X = fitted_rows(SUBJECTS[name])
    else:
        X = mixed_frame(5) if name == "trees" else numbers(5)
    more = {"sensitive_features": attributes(5)} if name in ("scutari", "aware") else {}
    for method in ("predict", "predict_proba", "decision_function", "transform"):
        if hasattr(model, method):
            assert len(getattr(model, method)(X, **more)) == len(X)


def fitted_rows(name):
    """The first rows of what a tiny model was fitted on, made without fitting it."""
    if name in ("two classes, pandas", "representation", "numbers, pandas, linear"):
        return mixed_frame().head(5)
    if name == "three classes, polars":
        import polars as pl

        return pl.from_pandas(mixed_frame().astype({"grade": str})).head(5)
    return np.random.default_rng(3).normal(size=(ROWS, 5))[:5]


def unsealed(path):
    """Arrays, metadata and document of a saved file."""
    with safetensors.safe_open(path, framework="np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    key = next(key for key in KEYS if key in metadata)
    return arrays, metadata, key, json.loads(metadata[key])


def sealed(arrays, metadata):
    """A file with a right checksum, as anybody can make who reads the format's description."""
    blank = "0" * 64
    content = safetensors.numpy.save(arrays, metadata={**metadata, "equipoise_sha256": blank})
    return resealed(content)


def resealed(content):
    """The same with the checksum of what it is now, in place of zeros."""
    blank = b'"equipoise_sha256":"' + b"0" * 64
    digest = hashlib.sha256(content).hexdigest().encode()
    return content.replace(blank, b'"equipoise_sha256":"' + digest)


def deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def strange_values():
    """What nobody expects in a document."""
    far = {"range": [0, 10**9, 1]}
    state = ["MT19937", [1] * 624, 10**9, 0, 0.0]
    return [
        *(None, True, False, -1, 0, 1, 2, 7, 10**9, 10**30, -(10**400), 1e308, 0.5, "", "x", "é\n"),
        *([], {}, [1], ["a", "b"], {"a": 1}, deep(300), {"float": "nan"}, {"float": "-inf"}),
        *({"float": "x"}, {"tuple": []}, {"tuple": [1, 2]}, {"tuple": ["a"] * 3}, {"mapping": []}),
        *({"tuple": [{"tuple": []}]}, {"mapping": [["a", 1]]}, {"mapping": [[[], 1]]}, far),
        *({"range": [0, 10**30, 1]}, {"tuple": [10**9, 10**9]}, {"array": ["<U500000000", ["a"]]}),
        *({"array": ["<i8", far]}, {"array": ["<i8", [far]]}, {"array": ["|O", [far, None]]}),
        *({"array": ["<f8", []]}, {"array": ["<U3", ["a", "b", "c"]]}, {"array": ["|O", ["a", 1]]}),
        *({"array": ["(9,9)i8", [1]]}, {"array": ["|b1", [True, False]]}, {"random_state": state}),
        *({"random_state": ["MT19937", far, 0, 0, 0.0]}, {"tensor": "0"}, {"value": 1}, "1" * 5000),
    ]


STRANGE = strange_values()
TYPES = ("float64", "float32", "float16", "int64", "int8", "uint8", "bool", "uint64")


def places(value, found=(), key=None):
    """Every container of a document with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def forge_document(document, choose):
    """Change one place of a document."""
    everywhere = list(places(document))
    container, key = choose.choice(everywhere)
    change = choose.choice(["delete", "replace", "replace", "replace", "copy", "wrap", "repeat"])
    if change == "delete":
        del container[key]
    elif change == "replace":
        container[key] = choose.choice(STRANGE)
    elif change == "copy":
        other, place = choose.choice(everywhere)
        container[key] = json.loads(json.dumps(other[place]))
    elif change == "wrap":
        container[key] = choose.choice(
            [[container[key]], {"tuple": [container[key]]}, str(container[key])]
        )
    elif isinstance(container, list):
        container.insert(key, container[key])
    else:
        container[f"{key}0"] = container.pop(key)
    return f"{change} {key!r}"


def forge_arrays(arrays, choose):
    """Change one array."""
    name = choose.choice(sorted(arrays))
    array = arrays[name]
    changes = ["delete", "type", "shape", "empty", "cut", "double", "fill", "fill", "swap", "some"]
    change = choose.choice(changes)
    if change == "delete":
        del arrays[name]
    elif change == "type":
        with np.errstate(all="ignore"), contextlib.suppress(ValueError):
            arrays[name] = array.astype(choose.choice(TYPES))
    elif change == "shape":
        shapes = [(-1,), (1, *array.shape), (*array.shape, 1), array.shape[::-1]]
        shapes += [(1, 1, -1), (-1, 1)]
        shape = choose.choice(shapes)
        arrays[name] = array.reshape(shape) if array.size or -1 not in shape else array[None]
    elif change == "empty":
        shape = choose.choice([(0,), (1, 10**9, 0), (10**9, 0), (1, 0, 10**12), (10**15, 0, 2)])
        arrays[name] = np.zeros(shape, array.dtype)
    elif change == "cut":
        arrays[name] = array[:-1] if array.ndim else array.reshape(1)
    elif change == "double":
        arrays[name] = np.concatenate([np.atleast_1d(array)] * 2)
    elif change in ("fill", "some"):
        value = choose.choice([0, 1, -1, 2, 5, 255, 10**9, 2**62, 1e300, np.nan, np.inf, -np.inf])
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = array.copy()
            where = ... if change == "fill" else choose.randrange(max(array.size, 1))
            with contextlib.suppress(OverflowError, IndexError):
                array.reshape(-1)[where] = np.float64(value).astype(array.dtype)
            arrays[name] = array
    else:
        other = choose.choice(sorted(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    return f"{change} array {name!r}"


def forged(path, seed):
    """A file with one or two things changed, and what was changed."""
    choose = random.Random(f"{path.name} {seed}")
    arrays, metadata, key, document = unsealed(path)
    said = []
    for _ in range(choose.choice([1, 1, 1, 2])):
        if choose.random() < 0.6:
            said.append(forge_document(document, choose))
        else:
            said.append(forge_arrays(arrays, choose))
        if not document or not arrays:
            break
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return sealed(arrays, {**metadata, key: json.dumps(document)}), ", ".join(said)


def limit_memory():
    """Let this process take `ROOM` bytes more than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


class OutOfTime(BaseException):
    """A file took longer than it may."""


def out_of_time(*_):
    raise OutOfTime


def main(folder, first, count):
    """Meet forged files of all kinds; print what went wrong, then how many there were."""
    warnings.simplefilter("ignore")
    originals = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    for path in originals:  # imports and thread pools do not count
        target = folder / ".copy"
        target.write_bytes(path.read_bytes())
        answer(path.name, target)
    limit_memory()
    signal.signal(signal.SIGALRM, out_of_time)
    tally = {"refused": 0, "loaded": 0}
    for seed in range(first, first + count):
        path = originals[seed % len(originals)]
        content, said = forged(path, seed)
        target.write_bytes(content)
        print(json.dumps({"trying": [path.name, seed, said]}), flush=True)
        try:
            signal.alarm(SECONDS)
            answer(path.name, target)
            tally["loaded"] += 1
        except InputError as error:
            assert len(str(error)) < 2_000, said
            tally["refused"] += 1
        except BaseException as error:
            words = f"{type(error).__name__}: {error}"[:300]
            print(json.dumps({"failed": [path.name, seed, said, words]}), flush=True)
        finally:
            signal.alarm(0)
    print(json.dumps({"done": tally}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
