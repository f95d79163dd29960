// SPDX-License-Identifier: MIT-0
// What scrolls inside the page, as long lines of code and wide tables do on a phone, can be reached by Tab
// and then scrolled with the arrows. What does not scroll is no stop.
const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) {
      target.tabIndex = 0;
      target.setAttribute("role", "group");
      target.setAttribute("aria-label", target.tagName == "PRE" ? "Listing" : "Table");
    } else {
      for (const attribute of ["tabindex", "role", "aria-label"]) target.removeAttribute(attribute);
    }
  }
});

// Where a search has led, Sphinx marks its words, and asks each element of SVG for its box: a title has none.
SVGElement.prototype.getBBox ??= () => new DOMRect();

// Escape closes the side bar that was opened over the page.
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") for (const bar of document.querySelectorAll(".sidebar-toggle:checked")) bar.checked = false;
});

document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".highlight pre, .table-wrapper")) watcher.observe(element);
  // In the bar of a phone: where one is, on a long page.
  const title = document.querySelector("article h1")?.firstChild, bar = document.querySelector(".mobile-header .brand");
  if (title) bar.textContent = title.textContent;
});
