/** The server's answer was no. `code` and `details` are those of its errors (docs/http.md). */
export class ThroughlineError extends Error {
  override name = 'ThroughlineError';

  constructor(
    readonly status: number,
    /** Of the server; `http_502` and the like where something else answered in its place. */
    readonly code: string,
    message: string,
    readonly details?: Record<string, unknown>,
    /** Seconds to wait before the next attempt, where the server names them. */
    readonly retryAfter?: number,
  ) {
    super(message);
  }
}

/** What an answer says that is no success. */
export async function errorOf(response: Response): Promise<ThroughlineError> {
  const { status, headers } = response;
  const { code, message, details } = parsed(await response.text());
  const retryAfter = Number(headers.get('Retry-After')) || undefined;
  return new ThroughlineError(
    status,
    code ?? `http_${status}`,
    message ?? `the server answered with status ${status}`,
    details,
    retryAfter,
  );
}

/** The body of an error; nothing where a proxy wrote it. */
export function parsed(body: string): { code?: string; message?: string; details?: Record<string, unknown> } {
  try {
    return JSON.parse(body) ?? {};
  } catch {
    return {};
  }
}
