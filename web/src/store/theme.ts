/** Light or dark, if a person chooses; else as the system has it. */

export type Theme = "" | "light" | "dark";

const KEPT = "haulout-theme";
const NEXT: Record<Theme, Theme> = { "": "dark", dark: "light", light: "" };

export function useKeptTheme(): void {
  show((localStorage.getItem(KEPT) ?? "") as Theme);
}

export function nextTheme(): Theme {
  const next = NEXT[(localStorage.getItem(KEPT) ?? "") as Theme] ?? "";
  localStorage.setItem(KEPT, next);
  show(next);
  return next;
}

function show(theme: Theme): void {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  // Canvases do not follow the sheet by themselves.
  document.dispatchEvent(new Event("themechange"));
}
