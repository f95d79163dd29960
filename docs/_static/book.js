// SPDX-License-Identifier: MIT-0
// What scrolls inside the page, as long lines of code, wide tables and pictures do on a phone, can be reached by Tab
// and then scrolled with the arrows. What does not scroll is no stop.
const names = { PRE: "Listing" };
const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) {
      target.tabIndex = 0;
      target.setAttribute("role", "group");
      target.setAttribute("aria-label", names[target.tagName] ?? (target.matches(".picture") ? "Picture" : "Table"));
    } else {
      for (const attribute of ["tabindex", "role", "aria-label"]) target.removeAttribute(attribute);
    }
  }
});

// Escape closes the side bar that was opened over the page.
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") for (const bar of document.querySelectorAll(".sidebar-toggle:checked")) bar.checked = false;
});

document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".highlight pre, .table-wrapper, .picture")) watcher.observe(element);
});
