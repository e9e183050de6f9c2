"""A Hugging Face Llama on a GPU, built from a configuration: unpatched, with ``dlblas.hf.patch``,
and with Liger's patch. A forward pass without gradients, and a training step (forward, loss,
backward). Times are those of whole calls from Python, by the device's clock.

Used by: gpu.py. Read next: dlblas/hf.py.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterator
from typing import Any

import torch

import dlblas
from dlblas.bench.gpu_contest import Row, entry
from dlblas.bench.gpu_session import Session
from dlblas.bench.gpu_timing import one_line
from dlblas.bench.timing import Samples

_OPS = (
    "rms_norm", "rms_norm_backward", "silu_mul", "silu_mul_backward", "apply_rotary_pos_emb",
)  # fmt: skip
_TOKENS, _LAYERS = 2048, 4
_SIZES = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11264,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 4096,
}  # fmt: skip
_QUICK = {"vocab_size": 512, "hidden_size": 256, "intermediate_size": 512,
          "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
_EXACT = "ours exact"  # whose forward pass has eager's bits, or no time
_FAR = 0.03  # of ‖logits − eager's‖ / ‖eager's‖, both in bf16
_SAMPLE_MS = 30.0  # at least: some tens of calls of a forward pass would hide none
_DEVICE = "cuda"

Step = Callable[[], Any]


class _Llama:
    """One model, and its version of what patches change in the modeling file that all share."""

    def __init__(self, state: dict[str, Any] | None, quick: bool, tokens: int) -> None:
        transformers: Any = importlib.import_module("transformers")
        modeling: Any = importlib.import_module("transformers.models.llama.modeling_llama")
        self._file = modeling
        sizes = {**_SIZES, **(_QUICK if quick else {}), "num_hidden_layers": _LAYERS}
        torch.manual_seed(7)
        with torch.device(_DEVICE):
            self.model = (
                transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
                .to(torch.bfloat16)
                .eval()
            )
            self.ids = torch.arange(tokens).remainder(sizes["vocab_size"]).view(1, tokens)
        if state is not None:
            self.model.load_state_dict(state)
        self._rotate = modeling.apply_rotary_pos_emb

    def patched(self, how: Callable[[Any], Any]) -> _Llama:
        """Applies ``how(model)``, then restores the file; ``enter`` sets the patched rotary."""
        kept = dict(vars(self._file))
        try:
            how(self.model)
            self._rotate = self._file.apply_rotary_pos_emb
        finally:
            vars(self._file).update(kept)
        return self

    def enter(self) -> None:
        self._file.apply_rotary_pos_emb = self._rotate

    def forward(self) -> torch.Tensor:
        with torch.no_grad():
            logits: torch.Tensor = self.model(input_ids=self.ids, use_cache=False).logits
        return logits

    def train(self) -> torch.Tensor:
        self.model.zero_grad(set_to_none=True)
        loss: torch.Tensor = self.model(input_ids=self.ids, labels=self.ids, use_cache=False).loss
        torch.autograd.backward(loss)
        return loss.detach()


def _liger(model: Any) -> None:
    importlib.import_module("liger_kernel.transformers").apply_liger_kernel_to_llama(model=model)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def rows(bench: Session) -> Iterator[Row]:
    try:
        version = _version("transformers")
        eager = _Llama(None, bench.quick, 64 if bench.quick else _TOKENS)
    except ImportError as error:
        print(f"gpu_model: {one_line(error)}", flush=True)
        return
    state = eager.model.state_dict()

    def another(how: Callable[[Any], Any]) -> _Llama:
        made = _Llama(state, bench.quick, eager.ids.numel())
        return made.patched(how)

    models, missing = {"transformers": eager}, dict[str, str]()
    for name, how in {
        "dlblas": dlblas.hf.patch,
        "ours without rotary": lambda model: dlblas.hf.patch(model, rotary=False),
        _EXACT: lambda model: dlblas.hf.patch(model, exact=True),
        "liger": _liger,
    }.items():
        try:
            models[name] = another(how)
        except Exception as error:
            missing[name] = one_line(error)
    versions = {"transformers": version, "dlblas": dlblas.__version__}
    versions |= {"liger": _version("liger-kernel")}
    for name in ("dlblas", _EXACT):
        models[name].enter()
        with dlblas.autotune(bench.seconds):
            models[name].forward()
            models[name].train()
    for step in ("forward", "train"):
        yield _row(bench, step, models, dict(missing), versions)


def _row(
    bench: Session, step: str, models: dict[str, _Llama], missing: dict[str, str],
    versions: dict[str, str],
) -> Row:  # fmt: skip
    steps = _checked(step, models, missing)
    times = _times(steps, models, bench.rounds)

    def told(name: str, shown: str = "") -> Row:
        why = missing.get(name, "")
        return entry(shown or name, versions.get(name, ""), times.get(name), why)

    rivals = [name for name in ("transformers", "liger") if name in times]
    against = min(rivals, key=lambda name: times[name].median_ms, default=None)
    ratio = None
    if against is not None and "dlblas" in times:
        ratio = times[against].median_ms / times["dlblas"].median_ms
    sizes = models["transformers"].model.config
    return {
        "what": "gpu_model",
        "op": None,
        "chain": list(_OPS),
        "problem": {
            "T": models["transformers"].ids.numel(), "C": sizes.hidden_size,
            "F": sizes.intermediate_size, "layers": sizes.num_hidden_layers,
            "step": {"forward": "a forward pass", "train": "a training step"}[step],
        },
        "dtype": "bf16",
        "method": {
            "clock": "events", "statistic": "median of interleaved rounds",
            "n": max((len(samples.ms) for samples in times.values()), default=0),
        },
        "ours": told("dlblas"),
        "variants": [told("ours without rotary"), told(_EXACT)],
        "peers": [told("transformers"), told("liger")],
        "against": against,
        "ratio": ratio,
    }  # fmt: skip


def _checked(step: str, models: dict[str, _Llama], missing: dict[str, str]) -> dict[str, Step]:
    """The steps whose results are close to those of the unpatched model."""
    made: dict[str, Step] = {}
    reference: torch.Tensor | None = None
    for name, llama in models.items():  # the model as it is comes first
        try:
            llama.enter()
            run: Step = getattr(llama, step)
            result = run().float()
            if reference is None:
                reference = result
            far = float((result - reference).norm() / reference.norm())
            if not far <= (0 if name == _EXACT and step == "forward" else _FAR):
                raise ArithmeticError(f"wrong result, off by {far:.2g}")
            made[name] = run
        except Exception as error:
            missing[name] = one_line(error)
    return made


def _times(steps: dict[str, Step], models: dict[str, _Llama], rounds: int) -> dict[str, Samples]:
    times: dict[str, list[float]] = {name: [] for name in steps}
    repeats = {}
    for name, run in steps.items():
        models[name].enter()
        run()
        repeats[name] = max(1, int(_SAMPLE_MS / max(_sample(run, 2), 1e-3)))
    for turn in range(rounds):
        for name in list(steps) if turn % 2 == 0 else reversed(list(steps)):
            models[name].enter()
            times[name].append(_sample(steps[name], repeats[name]))
    models["transformers"].enter()
    return {name: Samples(ms, repeats[name]) for name, ms in times.items()}


def _sample(run: Step, repeats: int) -> float:
    """Milliseconds of one call, between two events."""
    event: Any = torch.cuda.Event
    begin, end = (event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    milliseconds: float = begin.elapsed_time(end)
    return milliseconds / repeats
