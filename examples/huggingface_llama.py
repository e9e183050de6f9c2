"""A Hugging Face Llama whose norms are dlblas': same logits, same training step.

The model is built from a small LlamaConfig with random weights; nothing is downloaded. Runs on the
GPU if there is one. Needs `pip install transformers`.

    python examples/huggingface_llama.py [--layers 2] [--hidden 256]
"""

import argparse
import copy

import dlblas.nn
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm


def replace_norms(model: torch.nn.Module) -> int:
    """Replaces each LlamaRMSNorm by ours and keeps its parameter: checkpoints load as before."""
    theirs = [(n, m) for n, m in model.named_modules() if isinstance(m, LlamaRMSNorm)]
    for name, norm in theirs:
        ours = dlblas.nn.RMSNorm(
            norm.weight.numel(), norm.variance_epsilon, cast_before_weight=True, device="meta"
        )
        ours.weight = norm.weight
        model.set_submodule(name, ours)
    return len(theirs)


def training_step(model, tokens):
    """The loss before and after one SGD step: the second one depends on every gradient."""
    model.train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        optimiser.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        losses.append(loss.item())
        optimiser.step()
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=64)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.manual_seed(7)

    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=args.hidden,
        intermediate_size=2 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=args.tokens,
    )
    theirs = LlamaForCausalLM(config).to(device, dtype)
    with torch.no_grad():
        for module in theirs.modules():
            if isinstance(module, LlamaRMSNorm):
                module.weight.normal_(1, 0.2)  # all ones would hide a norm that forgets its weight
    ours = copy.deepcopy(theirs)
    count = replace_norms(ours)
    assert not any(isinstance(m, LlamaRMSNorm) for m in ours.modules())
    ours.load_state_dict(theirs.state_dict())

    tokens = torch.randint(config.vocab_size, (2, args.tokens), device=device)
    with torch.no_grad():
        logits, expected = (m.eval()(input_ids=tokens).logits.double() for m in (ours, theirs))
    difference = ((logits - expected).norm() / expected.norm()).item()
    losses, expected_losses = training_step(ours, tokens), training_step(theirs, tokens)
    gap = max(abs(a - b) / b for a, b in zip(losses, expected_losses, strict=True))

    # f32 sums differ in order; in bf16 a mean that rounds the other way differs by one ulp.
    allowed = 2e-2 if dtype is torch.bfloat16 else 1e-5
    print(f"{device}, {str(dtype)[6:]}: {count} norms replaced")
    print(f"  logits, relative difference: {difference:.1e}  (allowed {allowed:.0e})")
    print(f"  loss before and after a step: {losses[0]:.6f} {losses[1]:.6f}")
    print(f"  Hugging Face's own:           {expected_losses[0]:.6f} {expected_losses[1]:.6f}")
    if not (difference <= allowed and gap <= allowed):
        raise SystemExit("the models differ")


if __name__ == "__main__":
    main()
