/** The shape of each state in a square of 12 by 12. No two states have the same shape. */

export const SHAPES: Record<string, string> = {
  ok: "M3.500 2h5A1.500 1.500 0 0 1 10 3.500v5A1.500 1.500 0 0 1 8.500 10h-5A1.500 1.500 0 0 1 2 8.500v-5A1.500 1.500 0 0 1 3.500 2z",
  wait: "M6 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8z",
  drain: "M2 2h8v8z",
  stuck: "M2 3l1-1 3 3 3-3 1 1-3 3 3 3-1 1-3-3-3 3-1-1 3-3z",
  work: "M6 1l5 9.500H1z",
  safe: "M6 1l5 5-5 5-5-5z",
  cordoned: "M2 2h8v8H2zM3.500 3.500v5h5v-5z",
  off: "M2 5h8v2H2z",
  unknown: "M6 4.500a1.500 1.500 0 1 1 0 3 1.500 1.500 0 0 1 0-3z",
  // Categories, such as surfaces and versions.
  c0: "M6 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8z",
  c1: "M2 2h8v8H2z",
  c2: "M6 1l5 9.500H1z",
  c3: "M6 1l5 5-5 5-5-5z",
  c4: "M1 1.500h10L6 11z",
  c5: "M2 2h8v8H2zM4 4v4h4V4z",
  c6: "M4.800 1.500h2.400v3.300h3.300v2.400H7.200v3.300H4.800V7.200H1.500V4.800h3.300z",
  c7: "M2 4.500h8v3H2z",
};
