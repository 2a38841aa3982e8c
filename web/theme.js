// Runs before the first paint, so that a stored choice of theme does not flash. Not a module for the
// same reason.
(() => {
  try {
    const theme = localStorage.getItem("redrive-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden: then the system's setting counts.
  }
})();
