// Whatever scrolls sideways can be reached by keyboard, and no two parts of a page share a name.
function completeNames() {
  for (const box of document.querySelectorAll(
    ".md-typeset__scrollwrap, pre > code, .md-typeset p:has(> img[src*='pictures/'])",
  )) {
    box.setAttribute("tabindex", "0");
  }
  document.querySelectorAll(".md-code__nav").forEach((nav, place) => {
    if (!nav.hasAttribute("aria-label")) nav.setAttribute("aria-label", `Code block ${place + 1}`);
  });
}
new MutationObserver(completeNames).observe(document.body, { childList: true, subtree: true });
completeNames();
