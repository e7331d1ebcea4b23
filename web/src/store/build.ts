/** Builders of one line for tests. */

import type { Row } from "../api/types";

export function row(name: string, more: Partial<Row> = {}): Row {
  return { name, state: "in service", labels: {}, holders: [], since: null, cause: "", podsLeft: 0, podsTotal: 0, safeToWork: false, versions: {}, ...more };
}
