/** Paths of objects in the API. */

/** Return the path of an object; its parts are escaped, and empty ones left out. */
export function objectPath(kind: string, namespace: string, name: string): string {
  return [kind, namespace, name].filter(Boolean).map(encodeURIComponent).join("/");
}
