"""The style sheet of a page: light and dark as the reader's system has it, narrow and wide, and on paper."""

from __future__ import annotations

CSS = """
:root{--ink:#1b1f24;--faint:#a3acb5;--dim:#59636e;--front:#0b57d0;--reference:#b3261e;--fresh:#7a4a00;--paper:#fff;
--line:#d8dee4;--wash:#f3f5f7;color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--faint:#6b7683;--dim:#9aa5b1;--front:#8ab4f8;--reference:#f2938c;
--fresh:#e3b667;--paper:#15181c;--line:#343b43;--wash:#1f2429}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:68rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:break-word}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .25rem}
h2{font-size:1.2rem;margin:2.25rem 0 .25rem}
h3{font-size:1rem;margin:1.5rem 0 .25rem}
p,ul{margin:.5rem 0;max-width:46rem}
ul{padding-left:1.2rem}
li{margin:.2rem 0}
.dim,.note,caption{color:var(--dim)}
.note{margin:0 0 .5rem}
.answer{font-size:1.1rem;border-left:4px solid var(--front);padding-left:.9rem;margin:1.25rem 0}
.answer p{margin:.3rem 0}
.beware{border-left:4px solid var(--fresh);padding-left:.9rem}
.partial{border:2px solid var(--fresh);padding:.5rem .9rem;font-weight:600}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,23rem),1fr));gap:1rem 2rem;align-items:start}
figure{margin:.5rem 0;max-width:36rem}
figure svg{width:100%;height:auto;display:block}
figcaption{font-size:.85rem;color:var(--dim)}
.scroll{overflow-x:auto;margin:.5rem 0}
.scroll:focus-visible{outline:2px solid var(--front)}
table{border-collapse:separate;border-spacing:0;font-size:.92rem;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:.1rem 0 .4rem;font-size:.85rem}
th,td{padding:.28rem .9rem .28rem 0;text-align:left;vertical-align:top}
thead th{border-bottom:1px solid var(--faint);color:var(--dim);font-weight:600;vertical-align:bottom}
tbody th{font-weight:600;white-space:pre-wrap;position:sticky;left:0;background:var(--paper)}
@media(max-width:40rem){tbody th{max-width:8.5rem}}
tbody th,tbody td{border-bottom:1px solid var(--line)}
.n{text-align:right;white-space:nowrap}
thead .n{white-space:normal}
code,pre{font:.86rem/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{background:var(--wash);padding:.7rem .9rem;overflow-x:auto;border-radius:4px}
.wrap{white-space:pre-wrap}
details{margin:.5rem 0}
summary{cursor:pointer}
summary code,li code{display:inline-block;max-width:100%;overflow-wrap:anywhere}
footer{margin-top:3rem}
@media print{:root{--ink:#000;--faint:#888;--dim:#444;--front:#0b3d91;--reference:#9b1c15;--fresh:#6b4000;--paper:#fff;
--line:#ccc;--wash:#f6f6f6;color-scheme:light}
body{max-width:none;padding:0;font-size:10pt}.scroll,pre{overflow:visible}pre{white-space:pre-wrap}
table{font-size:8.5pt}th,td{padding-right:.6rem}.n{white-space:normal}tbody th{position:static}
figure,tr,pre,.answer,.beware{break-inside:avoid}h2,h3,caption{break-after:avoid}thead{display:table-header-group}
figure{max-width:12cm}details::details-content{content-visibility:visible;height:auto}summary{list-style:none}}
"""
