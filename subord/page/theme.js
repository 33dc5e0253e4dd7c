// Light or dark: as the system has it, or as the user chose.
//
// It runs before anything is drawn, so that a dark page never flashes white.
(() => {
  "use strict";
  const KEY = "subord-theme";
  const WORDS = { auto: "Colours: automatic", light: "Colours: light", dark: "Colours: dark" };
  const NEXT = { auto: "light", light: "dark", dark: "auto" };
  const system = matchMedia("(prefers-color-scheme: dark)");

  // A browser may forbid storage; then the choice lasts as long as the page.
  const remembered = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };
  const remember = (choice) => {
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // see above
    }
  };

  let choice = Object.hasOwn(WORDS, remembered() ?? "") ? remembered() : "auto";
  const apply = () => {
    const dark = choice === "dark" || (choice === "auto" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = WORDS[choice];
      button.hidden = false;
    }
  };

  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      choice = NEXT[choice];
      remember(choice);
      apply();
    });
  });
})();
