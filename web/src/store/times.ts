/** Instants and spans as people read them. Pure. */

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
];

/** Return a span such as `41 min` or `2 d 18 h`: its two greatest units, and one where the second says little. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const first = UNITS.findIndex(([, size]) => whole >= size);
  if (first < 0) return "0 s";
  const [word, size] = UNITS[first]!;
  const count = Math.floor(whole / size);
  const second = UNITS[first + 1];
  const rest = second ? Math.floor((whole % size) / second[1]) : 0;
  return rest && second && count < 10 && word !== "min" ? `${count} ${word} ${rest} ${second[0]}` : `${count} ${word}`;
}

/** Return how long ago an instant was, or how long until it comes. */
export function relative(at: number, now: number): string {
  const seconds = (now - at) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds >= 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
}

export function instant(text: string | null | undefined): number | null {
  const at = text ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string, kind: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const place = `${zone} ${kind}`;
  const known = formats.get(place);
  if (known) return known;
  const made = new Intl.DateTimeFormat("en-GB", { ...options, ...(zone === "local" ? {} : { timeZone: zone }), hourCycle: "h23" });
  formats.set(place, made);
  return made;
}

/** `02:51` */
export function clock(at: number, zone: string): string {
  return format(zone, "clock", { hour: "2-digit", minute: "2-digit" }).format(at);
}

/** `Sat 14 Nov 02:51` */
export function dayAndClock(at: number, zone: string): string {
  return format(zone, "day-clock", { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" })
    .format(at)
    .replaceAll(",", "");
}

/** `Sat 14 Nov` */
export function day(at: number, zone: string): string {
  return format(zone, "day", { weekday: "short", day: "numeric", month: "short" }).format(at).replaceAll(",", "");
}

/** `Sat 14 Nov 2026 02:51:07 GMT+1`: the whole instant, for those who need it. */
export function absolute(at: number, zone: string): string {
  const options: Intl.DateTimeFormatOptions = {
    weekday: "short", day: "numeric", month: "short", year: "numeric",
    hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
  };
  return format(zone, "absolute", options).format(at).replaceAll(",", "");
}

/** Return the hours between a time zone and UTC at an instant. */
export function offset(at: number, zone: string): number {
  const parts = format(zone, "parts", {
    year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric",
  }).formatToParts(at);
  const field = (type: string) => Number(parts.find((part) => part.type === type)?.value ?? 0);
  const shown = Date.UTC(field("year"), field("month") - 1, field("day"), field("hour"), field("minute"), field("second"));
  return (shown - Math.floor(at / 1000) * 1000) / 3_600_000;
}

/** Return the instant at which the day of `at` begins in a time zone. */
export function startOfDay(at: number, zone: string): number {
  const shown = at + offset(at, zone) * 3_600_000;
  const midnight = Math.floor(shown / 86_400_000) * 86_400_000;
  const guess = midnight - offset(at, zone) * 3_600_000;
  // The offset at midnight may be another one than now.
  return midnight - offset(guess, zone) * 3_600_000;
}

export function count(number: number): string {
  return number.toLocaleString("en-US");
}

/** `1 node`, `12 nodes` */
export function counted(number: number, word: string): string {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}
