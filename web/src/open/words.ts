// The page's language, and numbers and times in it.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { openDe, openEn, say, type OpenStrings } from "../strings";

export type Language = "en" | "de";
const KEPT = "octavo-language";

export function firstLanguage(): Language {
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(KEPT);
  } catch {
    // nothing is kept where a browser forbids it
  }
  return (kept ?? navigator.language).startsWith("de") ? "de" : "en";
}

export function keepLanguage(language: Language): void {
  try {
    localStorage.setItem(KEPT, language);
  } catch {
    // as above
  }
}

export const stringsOf = (language: Language): OpenStrings => (language === "de" ? openDe : openEn);

export interface Spoken { s: OpenStrings; language: Language; theme: number; setLanguage: (language: Language) => void }

export const Words = createContext<Spoken>({ s: openEn, language: "en", theme: 0, setLanguage: () => undefined });
export const useWords = (): Spoken => useContext(Words);

/** Seconds as a person says them. */
export function lasting(seconds: number, s: OpenStrings): string {
  if (seconds < 90) return say(s.seconds, { n: Math.max(0, Math.round(seconds)) });
  if (seconds < 5400) return say(s.minutes, { n: Math.round(seconds / 60) });
  return say(s.hours, { n: +(seconds / 3600).toFixed(1) });
}

export const minutesOf = (minutes: number, s: OpenStrings): string =>
  minutes < 1.5 ? lasting(minutes * 60, s) : minutes < 90 ? say(s.minutes, { n: +minutes.toFixed(1) }) : say(s.hours, { n: +(minutes / 60).toFixed(1) });

export const bytesOf = (n: number): string =>
  n >= 1e9 ? `${(n / 1e9).toFixed(1)} GB` : n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : n >= 1e3 ? `${Math.round(n / 1e3)} kB` : `${n} B`;

export const count = (n: number, language: Language): string => Math.round(n).toLocaleString(language === "de" ? "de-DE" : "en-US");

export function ago(when: number, s: OpenStrings): string {
  const seconds = Date.now() / 1000 - when;
  return seconds < 20 ? s.justNow : say(s.ago, { time: seconds > 172800 ? say(s.days, { n: Math.round(seconds / 86400) }) : lasting(seconds, s) });
}
