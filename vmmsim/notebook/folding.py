# SPDX-License-Identifier: MIT-0
"""`%vmm fold`: what a cell shows stays folded, so that a reader can guess first, also after *Run All*."""

import html

SUMMARY = "What happened"
MESSAGE = '<details style="margin:4px 0"><summary style="cursor:pointer">{}</summary>{}</details>'


def folded(messages):
    """The messages of a cell as one."""
    texts, parts = [], []
    for message in messages:
        ((kind, content),) = message.items()
        if kind == "clear":
            texts, parts = [], []
        elif kind == "display":
            data = content["data"]
            text = data.get("text/plain", "")
            texts.append(f"{text}\n")
            parts.append(html_of(data, text))
        else:
            texts.append(content)
            parts.append(pre(content))
    whole = MESSAGE.format(SUMMARY, "".join(parts).replace("</pre><pre>", ""))
    return {"display": {"data": {"text/html": whole, "text/plain": "".join(texts).rstrip("\n")}, "metadata": {}}}


def html_of(data, text):
    if "text/html" in data:
        return data["text/html"]
    for kind in ("image/png", "image/jpeg"):
        if kind in data:
            return f'<img src="data:{kind};base64,{data[kind]}" alt="{html.escape(text)}">'
    return data.get("image/svg+xml") or f"<div>{pre(text)}</div>"


def pre(text):
    return f"<pre>{html.escape(text)}</pre>"
