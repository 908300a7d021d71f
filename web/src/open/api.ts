// Asking the server, which answers nobody without the token that stands in the address of this page.

const TOKEN = new URLSearchParams(location.search).get("token") ?? "";

/** What the server refused, in its words; `code` is fixed, and may have words of its own here. */
export class Refused extends Error {
  constructor(readonly status: number, message: string, readonly code: string) {
    super(message);
  }
}

export interface Asked {
  body?: unknown;
  file?: Blob;
  method?: string;
  query?: Record<string, string | number>;
  signal?: AbortSignal;
}

export async function ask(path: string, { body, file, method, query, signal }: Asked = {}): Promise<Response> {
  const words = query ? `?${new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]))}` : "";
  const headers: Record<string, string> = { Authorization: `Bearer ${TOKEN}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path + words, {
    method: method ?? (body !== undefined ? "POST" : file ? "PUT" : "GET"),
    headers, body: body !== undefined ? JSON.stringify(body) : file, signal, cache: "no-store", referrerPolicy: "no-referrer",
  });
  if (!response.ok) {
    const told = (await response.json().catch(() => null)) as { error?: { message?: string; code?: string } } | null;
    throw new Refused(response.status, told?.error?.message ?? `${response.status}`, told?.error?.code ?? "");
  }
  return response;
}

export async function asked<T>(path: string, what?: Asked): Promise<T> {
  return (await ask(path, what)).json() as Promise<T>;
}

/** The documents of server-sent events, as they come. */
export async function* events<T>(response: Response): AsyncGenerator<T> {
  const reader = response.body!.getReader(), decoder = new TextDecoder();
  let held = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      held += decoder.decode(value, { stream: true });
      const parts = held.split("\n\n");
      held = parts.pop()!;
      for (const part of parts) {
        const data = part.replace(/^data: /, "");
        if (data === "[DONE]") return;
        yield JSON.parse(data) as T;
      }
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** An address of this server that works once, for a frame or a window that is told no token. */
export async function ticketed(path: string, query: Record<string, string>): Promise<string> {
  const { ticket } = await asked<{ ticket: string }>("/api/ticket");
  return `${path}?${new URLSearchParams({ ...query, ticket })}`;
}

/** Show such a page in a window of its own. */
export async function openWindow(path: string, query: Record<string, string>): Promise<void> {
  const opened = window.open("", "_blank"); // at once, while a browser still sees the click
  const address = await ticketed(path, query);
  if (!opened) return;
  opened.opener = null;
  opened.location.replace(new URL(address, location.href));
}
