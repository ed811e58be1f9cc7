"""Tensors, data sets and loaders of torch; all of it is skipped where torch is not installed."""

from __future__ import annotations

import numpy as np
import pytest

import streamfit as sf
from streamfit.errors import InvalidDataError, StoreExistsError, UnsupportedError
from streamfit.sources.registry import open_source
from streamfit.sources.source import Names

torch = pytest.importorskip("torch", reason="torch is an extra: pip install 'streamfit[torch]'")
from torch.utils import data as torch_data  # noqa: E402  # after it is known to be there

N_ROWS = 237
rng = np.random.default_rng(11)
X = rng.normal(size=(N_ROWS, 5)).astype("f4")
y = rng.integers(0, 3, N_ROWS)
w = rng.random(N_ROWS)


class Rows(torch_data.Dataset):
    def __init__(self, *arrays, give=tuple):
        self.arrays, self.give = arrays, give

    def __len__(self):
        return N_ROWS

    def __getitem__(self, row):
        parts = [values[row] for values in self.arrays]
        return parts[0] if len(parts) == 1 else self.give(parts)


class Flow(torch_data.IterableDataset):
    def __init__(self, *arrays):
        self.arrays = arrays

    def __iter__(self):
        return iter(self.arrays[0]) if len(self.arrays) == 1 else zip(*self.arrays, strict=True)


def tensors():
    return torch.from_numpy(X), torch.from_numpy(y), torch.from_numpy(w)


WITH_SIDES = {
    "tensors": lambda: torch_data.TensorDataset(*tensors()),
    "grad": lambda: torch_data.TensorDataset(tensors()[0].requires_grad_(), *tensors()[1:]),
    "strided": lambda: torch_data.TensorDataset(torch.from_numpy(np.asfortranarray(X)), *tensors()[1:]),
    "dataset": lambda: Rows(X, y, w),
    "dataset-of-tensors": lambda: Rows(*tensors()),
    "dataset-of-lists": lambda: Rows(*tensors(), give=list),
    "subset": lambda: torch_data.Subset(torch_data.TensorDataset(*tensors()), range(N_ROWS)),
    "joined": lambda: torch_data.ConcatDataset(
        [torch_data.Subset(Rows(X, y, w), range(100)), torch_data.Subset(Rows(X, y, w), range(100, N_ROWS))]
    ),
    "iterable": lambda: Flow(X, y, w),
    "loader": lambda: torch_data.DataLoader(torch_data.TensorDataset(*tensors()), batch_size=32),
    "loader-of-arrays": lambda: torch_data.DataLoader(Rows(X, y, w), batch_size=32),
    "loader-without-batches": lambda: torch_data.DataLoader(Rows(X, y, w), batch_size=None),
    "loader-of-iterable": lambda: torch_data.DataLoader(Flow(X, y, w), batch_size=32),
    "loader-drops-nothing": lambda: torch_data.DataLoader(Rows(X, y, w), batch_size=79, drop_last=True),
    "batches-of-tensors": lambda: [tuple(t[start : start + 50] for t in tensors()) for start in range(0, N_ROWS, 50)],
}
ALONE = {
    "tensor": lambda: tensors()[0],
    "tensors": lambda: torch_data.TensorDataset(tensors()[0]),
    "dataset": lambda: Rows(X),
    "iterable": lambda: Flow(tensors()[0]),
    "loader": lambda: torch_data.DataLoader(Rows(X), batch_size=32),
    "batches-with-grad": lambda: [tensors()[0].requires_grad_()[:100], tensors()[0][100:]],
}


@pytest.mark.parametrize("kind", WITH_SIDES)
def test_rows_labels_and_weights(tmp_path, kind):
    store = sf.ingest(WITH_SIDES[kind](), tmp_path / "a", ids=np.arange(N_ROWS), chunk_rows=50)
    assert store.dtype == "f4"
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), y)
    np.testing.assert_array_equal(store.sample_weight.compute(), w)
    again = sf.ingest(WITH_SIDES[kind](), tmp_path / "a", ids=np.arange(N_ROWS), chunk_rows=50)
    assert again.digest == store.digest


@pytest.mark.parametrize("kind", ALONE)
def test_rows_alone(tmp_path, kind):
    store = sf.ingest(ALONE[kind](), tmp_path / "a", y=y, chunk_rows=50)
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), y)


@pytest.mark.parametrize("start", [0, 1, 50, 123, N_ROWS - 1, N_ROWS])
@pytest.mark.parametrize("kind", WITH_SIDES)
def test_from_any_row_on(monkeypatch, kind, start):
    monkeypatch.setattr("streamfit.sources.source._BLOCK_NBYTES", 50 * 20)
    source = open_source(WITH_SIDES[kind](), Names(), memory_limit=None)
    assert source.recognisable == source.seekable == (kind in ("tensors", "grad", "strided"))
    assert source.n_rows == (None if "iterable" in kind or "batches" in kind.partition("-")[0] else N_ROWS)
    blocks = list(source.blocks(start))
    for name, whole in {"X": X, "y": y, "sample_weight": w}.items():
        given = np.concatenate([whole[:0], *(getattr(block, name) for block in blocks)])
        np.testing.assert_array_equal(given, whole[start:])


def test_tensors_are_read_without_a_copy():
    tensor = tensors()[0]
    source = open_source(torch_data.TensorDataset(tensor), Names(), memory_limit=None)
    (block,) = source.blocks(0)
    assert np.shares_memory(block.X, tensor.numpy())


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        ("float16", "f4"),
        ("bfloat16", "f4"),
        ("float64", "f8"),
        ("int8", "i1"),
        ("int64", "i8"),
        ("uint8", "u1"),
        ("bool", "u1"),
    ],
)
@pytest.mark.parametrize("kind", ["tensor", "dataset", "loader"])
def test_types(tmp_path, dtype, stored, kind):
    tensor = (torch.from_numpy(X) * 3).to(getattr(torch, dtype))
    expected = (tensor.float() if dtype == "bfloat16" else tensor).numpy()
    source = {
        "tensor": lambda: tensor,
        "dataset": lambda: Rows(tensor),
        "loader": lambda: torch_data.DataLoader(Rows(tensor), batch_size=40),
    }[kind]()
    store = sf.ingest(source, tmp_path / "a", chunk_rows=50)
    assert store.dtype == stored
    np.testing.assert_array_equal(store.X.compute(), expected)


def test_one_changed_value_is_noticed(tmp_path):
    for kind in ("tensors", "dataset", "loader"):
        tensor = tensors()[0].clone()

        def give(kind=kind, tensor=tensor):
            if kind == "tensors":
                return torch_data.TensorDataset(tensor)
            return Rows(tensor) if kind == "dataset" else torch_data.DataLoader(Rows(tensor), batch_size=32)

        sf.ingest(give(), tmp_path / kind, chunk_rows=50)
        tensor[123, 2] += 1
        with pytest.raises(StoreExistsError, match="overwrite"):
            sf.ingest(give(), tmp_path / kind, chunk_rows=50)


@pytest.mark.parametrize("kind", ["dataset", "iterable", "loader"])
def test_what_stops_in_the_middle_goes_on(tmp_path, kind):
    class Failing(Rows):
        fail_at = 130

        def __getitem__(self, row):
            if row == self.fail_at:
                raise RuntimeError("the network is gone")
            return super().__getitem__(row)

        def __iter__(self):
            return (self[row] for row in range(N_ROWS))

    class FailingFlow(Failing, torch_data.IterableDataset):
        pass

    rows = (FailingFlow if kind == "iterable" else Failing)(X, y)

    def give():
        return torch_data.DataLoader(rows, batch_size=20) if kind == "loader" else rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamfit.sources.source._BLOCK_NBYTES", 20 * 20)
        with pytest.raises(RuntimeError, match="network"):
            sf.ingest(give(), tmp_path / "a", chunk_rows=25)
        written = {file: file.stat().st_ino for file in (tmp_path / "a").glob("X/c/*/*")}
        assert len(written) == 4
        rows.fail_at = None
        store = sf.ingest(give(), tmp_path / "a", chunk_rows=25)
    np.testing.assert_array_equal(store.X.compute(), X)
    assert {file: file.stat().st_ino for file in written} == written


ORDERS = {
    "shuffle": ({"shuffle": True}, "RandomSampler"),
    "weighted": ({"sampler": torch_data.WeightedRandomSampler([1.0] * N_ROWS, N_ROWS)}, "WeightedRandomSampler"),
    "subset": ({"sampler": torch_data.SubsetRandomSampler(range(N_ROWS))}, "SubsetRandomSampler"),
    "own": ({"sampler": list(range(N_ROWS))[::-1]}, "list"),
    "batches": (
        {"batch_sampler": torch_data.BatchSampler(torch_data.RandomSampler(range(N_ROWS)), 8, drop_last=False)},
        "RandomSampler",
    ),
    "own-batches": ({"batch_sampler": [[0, 1], [2, 3]]}, "list"),
    "items": ({"shuffle": True, "batch_size": None}, "RandomSampler"),
}


@pytest.mark.parametrize("kind", ORDERS)
def test_loaders_in_another_order_are_refused(tmp_path, kind):
    options, sampler = ORDERS[kind]
    with pytest.raises(UnsupportedError, match=rf"by a {sampler}, .*shuffle=False"):
        sf.ingest(torch_data.DataLoader(Rows(X, y), **options), tmp_path / "a")


def test_loaders_that_drop_rows_are_refused(tmp_path):
    loader = torch_data.DataLoader(Rows(X, y), batch_size=32, drop_last=True)
    with pytest.raises(UnsupportedError, match="leave out 13 of 237 rows"):
        sf.ingest(loader, tmp_path / "a")


def ragged():
    return Flow([X[0], X[1][:4]])


@pytest.mark.parametrize(
    ("give", "error", "message"),
    [
        pytest.param(lambda: torch.zeros(3), InvalidDataError, "1 dimensions", id="1-D"),
        pytest.param(lambda: torch.zeros(2, 3, 4), InvalidDataError, "3 dimensions", id="3-D"),
        pytest.param(lambda: torch.zeros(2, 3).to_sparse(), UnsupportedError, "to_dense", id="sparse"),
        pytest.param(lambda: torch.zeros(2, 3, dtype=torch.complex64), InvalidDataError, "complex64", id="complex"),
        pytest.param(lambda: torch.zeros(0, 3), InvalidDataError, "0 rows", id="no-rows"),
        pytest.param(lambda: torch_data.TensorDataset(*[torch.zeros(2, 2)] * 4), InvalidDataError, "4 tensors", id="4"),
        pytest.param(
            lambda: torch_data.TensorDataset(torch.zeros(2, 2), torch.zeros(2, 1, 2)),
            InvalidDataError,
            r"y has shape \(2, 1, 2\)",
            id="y-of-three-dimensions",
        ),
        pytest.param(lambda: Rows(np.zeros((N_ROWS, 2, 2))), InvalidDataError, "Item 0 .*flatten", id="images"),
        pytest.param(lambda: Rows(np.zeros(N_ROWS)), InvalidDataError, r"Item 0 has shape \(\)", id="numbers"),
        pytest.param(
            lambda: Rows(X, y, give=lambda parts: dict(zip("xy", parts, strict=True))),
            InvalidDataError,
            "Item 0 is a dict of 'x', 'y'",
            id="dicts",
        ),
        pytest.param(lambda: Rows(X, y, w, w), InvalidDataError, "4 parts", id="parts"),
        pytest.param(lambda: Flow(X[:0]), InvalidDataError, "no item", id="no-item"),
        pytest.param(ragged, InvalidDataError, "Item 1 has 1 parts and 4 features", id="ragged"),
        pytest.param(
            lambda: torch_data.DataLoader(Rows(np.zeros((N_ROWS, 2, 2)))), InvalidDataError, "3 dim", id="loader-3-D"
        ),
        pytest.param(lambda: torch_data.DataLoader(Flow(X[:0])), InvalidDataError, "no batch", id="no-batch"),
        pytest.param(lambda: torch.nn.Linear(2, 2), InvalidDataError, "Linear is no source", id="module"),
        pytest.param(torch_data.Dataset, InvalidDataError, "with a length", id="no-length"),
    ],
)
def test_what_is_refused(tmp_path, give, error, message):
    with pytest.raises(error, match=message):
        sf.ingest(give(), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def tensors_of(X, y):
    return torch_data.TensorDataset(X, y)


def items_of(X, y):
    return torch_data.Subset(tensors_of(X, y), range(len(X)))


def batches_of(X, y):
    return torch_data.DataLoader(tensors_of(X, y), batch_size=16)


@pytest.mark.parametrize("give", [tensors_of, items_of, batches_of], ids=["tensors", "items", "batches"])
def test_several_labels_a_row(tmp_path, give):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)).astype("f4"), rng.integers(0, 3, (50, 4))
    store = sf.ingest(give(torch.from_numpy(X), torch.from_numpy(y)), tmp_path / "a", chunk_rows=20)
    np.testing.assert_array_equal(store.X.compute(), X)
    np.testing.assert_array_equal(store.y.compute(), y)
    assert store.n_outputs == 4
