#!/usr/bin/env python3
"""Writes a tiny GGUF model that plays a fixed script: smoke_model.py OUT.gguf [fenced]

Its weights are a successor table of tokens (one-hot embeddings; attention and feed-forward are zero). It is therefore
written, not trained, has about 2 MB, and always responds the same: after a user message with tools it calls `ls`,
otherwise it says one sentence. Each character of a prompt is a token. With `fenced` it writes the call as a JSON code
block, which the server treats as text.
"""
import sys

import gguf
import numpy as np

MADE = ['<tool_call>\n', '{"name": ', '"ls"', ', "arguments": ', '{"path": ', '"/"}', '}\n', '</tool_call>']
FENCED = ['```json\n', '{"name": ', '"ls"', ', "arguments": ', '{"path": ', '"/"}', '}\n```']
CALL = FENCED if "fenced" in sys.argv[2:] else MADE
SAY = ["I have", " looked", " at the", " files", ", and", " there is", " no more", " to do."]
CONTROL = ["<|system|>", "<|user|>", "<|tool|>", "<|end|>", "<|assistant|>", "<|act|>"]
CONTEXT = 131072
TEMPLATE = """\
{%- if tools %}<|system|>Call a tool like this:
<tool_call>
{"name": "NAME", "arguments": {}}
</tool_call>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}<|end|>{% endif %}
{%- for message in messages %}<|{{ message.role }}|>{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|end|>{% endfor %}
{%- if add_generation_prompt %}{% if tools and messages[-1].role == 'user' %}<|act|>{% else %}<|assistant|>{% endif %}\
{% endif %}"""


def letters():
    """The character for each byte in byte-level vocabularies."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    rest = iter(range(256, 512))
    return [chr(byte if byte in plain else next(rest)) for byte in range(256)]


def write(path):
    spell = letters()
    # A vocabulary must have at least one merge.
    tokens = [*spell, "he", *CONTROL, *("".join(spell[b] for b in step.encode()) for step in CALL + SAY)]
    kinds = [gguf.TokenType.CONTROL if token in CONTROL else gguf.TokenType.NORMAL for token in tokens]
    size, end = len(tokens), tokens.index("<|end|>")

    embedding = np.eye(size, dtype=np.float32)
    output = np.zeros((size, size), dtype=np.float32)
    first = len(tokens) - len(CALL + SAY)
    for start, at, steps in (("<|act|>", first, CALL), ("<|assistant|>", first + len(CALL), SAY)):
        script = [tokens.index(start), *range(at, at + len(steps)), end]
        output[script[1:], script[:-1]] = 10

    out = gguf.GGUFWriter(path, "llama")
    out.add_name("smoke")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(size)
    out.add_block_count(1)
    out.add_feed_forward_length(32)
    out.add_head_count(1)
    out.add_head_count_kv(1)
    # Narrow heads keep long prompts fast.
    out.add_key_length(16)
    out.add_value_length(16)
    out.add_rope_dimension_count(16)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(tokens)
    out.add_token_types(kinds)
    out.add_token_merges(["h e"])
    out.add_eos_token_id(end)
    out.add_add_bos_token(False)
    out.add_chat_template(TEMPLATE)

    ones, zeros = np.ones(size, np.float32), lambda *shape: np.zeros(shape, np.float32)
    for name, weights in {
        "token_embd": embedding, "output_norm": ones, "output": output,
        "blk.0.attn_norm": ones, "blk.0.ffn_norm": ones,
        "blk.0.attn_q": zeros(16, size), "blk.0.attn_k": zeros(16, size), "blk.0.attn_v": zeros(16, size),
        "blk.0.attn_output": zeros(size, 16),
        "blk.0.ffn_gate": zeros(32, size), "blk.0.ffn_up": zeros(32, size), "blk.0.ffn_down": zeros(size, 32),
    }.items():
        out.add_tensor(f"{name}.weight", weights)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


write(sys.argv[1])
