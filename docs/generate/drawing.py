"""Pictures as SVG text: boxes, arrows and bars on a card that is readable on light and dark pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

_STYLE = """
  .card{fill:#fbfcfd;stroke:#c9d3da}
  text{font-family:system-ui,'Segoe UI',Roboto,'Noto Sans',sans-serif;fill:#1d2b33;font-size:14px}
  .small{font-size:12px} .mono{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px}
  .bold{font-weight:600} .quiet{fill:#4d5b64} .title{font-size:16px;font-weight:600}
  .box{fill:#ffffff;stroke:#5b7585;stroke-width:1.2}
  .user{fill:#dcebf7;stroke:#2f6f9f} .assistant{fill:#e4f3e6;stroke:#3b7d4a}
  .log{fill:#fdf1d9;stroke:#a77718} .view{fill:#ece6f8;stroke:#6b4fa3} .gone{fill:#f1f1f1;stroke:#9aa4ab}
  .hit{fill:#f9e0d2;stroke:#b0582a}
  .line{stroke:#4d5b64;stroke-width:1.4;fill:none} .dash{stroke-dasharray:5 4}
  .head{fill:#4d5b64} .grid{stroke:#dde4e9}
  .bar{fill:#2f6f9f} .bar2{fill:#8fa6b5} .bar3{fill:#b0582a}
  @media (prefers-color-scheme: dark){
    .card{fill:#161d26;stroke:#3c4a57}
    text{fill:#e6ebf0} .quiet{fill:#b4bfc9}
    .box{fill:#1f2933;stroke:#8aa2b3}
    .user{fill:#17364d;stroke:#7cc4ee} .assistant{fill:#183a24;stroke:#86dba0}
    .log{fill:#3d2f12;stroke:#e2b65c} .view{fill:#2c2445;stroke:#bda7f0} .gone{fill:#242c34;stroke:#71808c}
    .hit{fill:#46281a;stroke:#ffb68a}
    .line{stroke:#b4bfc9} .head{fill:#b4bfc9} .grid{stroke:#2c3843}
    .bar{fill:#7cc4ee} .bar2{fill:#6d8291} .bar3{fill:#ffb68a}
  }
"""


@dataclass
class Drawing:
    """A picture under construction.

    Attributes:
        width: In pixels.
        height: In pixels.
        title: What a screen reader says first.
        about: What a reader who does not see it has to know.
        parts: SVG elements, in the order of drawing.
    """

    width: int
    height: int
    title: str
    about: str
    parts: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, *, kind: str = "", anchor: str = "start"
    ) -> None:
        """Write one line of text; y is its baseline."""
        named = f' class="{kind}"' if kind else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{named}>{escape(words)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *lines: str,
        kind: str = "",
        text: str = "",
    ) -> None:
        """Draw a box with lines of text in its middle."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7"'
            f' class="box {kind}"/>'
        )
        first = y + height / 2 - (len(lines) - 1) * 9 + 5
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + number * 18, line, kind=text, anchor="middle")

    def bar(self, x: float, y: float, width: float, height: float, *, kind: str = "bar") -> None:
        """Draw a bar without text, to hundredths: what is beyond depends on the processor."""
        self.parts.append(
            f'<rect x="{round(x, 2):g}" y="{y:g}" width="{round(max(width, 0), 2):g}" height="{height:g}" class="{kind}"/>'
        )

    def rule(self, x1: float, y1: float, x2: float, y2: float, *, kind: str = "line") -> None:
        """Draw a straight line."""
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>')

    def arrow(
        self, x1: float, y1: float, x2: float, y2: float, words: str = "", *, dash: bool = False
    ) -> None:
        """Draw an arrow, with words above its middle."""
        kind = "line dash" if dash else "line"
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"'
            ' marker-end="url(#head)"/>'
        )
        if words:
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 6, words, kind="small", anchor="middle")

    def render(self) -> str:
        """Return the picture as SVG text."""
        size = (
            f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        )
        head = (
            '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8"'
            ' orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" class="head"/></marker>'
        )
        card = f'<rect x="1" y="1" width="{self.width - 2}" height="{self.height - 2}" rx="12" class="card"/>'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">',
                f'<title id="t">{escape(self.title)}</title>',
                f'<desc id="d">{escape(self.about)}</desc>',
                f"<style>{_STYLE}</style>",
                f"<defs>{head}</defs>",
                card,
                *self.parts,
                "</svg>\n",
            ]
        )
