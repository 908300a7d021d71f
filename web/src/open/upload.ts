// From a drop to files with the paths that they had in their folder, and from there to the server, one after the other.
import { asked, Refused } from "./api";

export interface Dropped { file: File; path: string }

export const MOST_FILE = 2 ** 30, MOST_TOGETHER = 2 * 2 ** 30, MOST_FILES = 3000;
const TOKEN = new URLSearchParams(location.search).get("token") ?? "";

export const chosen = (files: FileList | null): Dropped[] =>
  [...(files ?? [])].map((file) => ({ file, path: file.webkitRelativePath || file.name }));

async function inside(entry: FileSystemEntry, above: string, found: Dropped[]): Promise<void> {
  if (found.length > MOST_FILES || entry.name.startsWith(".")) return;
  if (entry.isFile) {
    const file = await new Promise<File | null>((resolve) => (entry as FileSystemFileEntry).file(resolve, () => resolve(null)));
    if (file) found.push({ file, path: above + entry.name });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (!some.length) return;
    for (const each of some) await inside(each, `${above}${entry.name}/`, found);
  }
}

export async function dropped(transfer: DataTransfer): Promise<Dropped[]> {
  const entries = [...transfer.items].map((item) => (item.kind === "file" ? item.webkitGetAsEntry?.() : null));
  if (!entries.some(Boolean)) return chosen(transfer.files);
  const found: Dropped[] = [];
  for (const entry of entries) if (entry) await inside(entry, "", found);
  return found;
}

/** What the text is called: its file, or the folder that was dropped. */
export function nameOf(files: Dropped[]): string {
  const tops = new Set(files.map(({ path }) => path.split("/")[0]));
  return tops.size === 1 ? [...tops][0] : files[0].path.split("/").pop()!;
}

export interface Sending { text: string; done: number; all: number; at: number; of: number }

/** Send all files; the id of the text that they are. */
export async function send(files: Dropped[], tell: (now: Sending) => void, signal: AbortSignal): Promise<string> {
  const { id } = await asked<{ id: string }>("/api/text", { body: { name: nameOf(files) }, signal });
  const all = files.reduce((sum, { file }) => sum + file.size, 0), shared = new Set(files.map(({ path }) => path.split("/")[0])).size === 1;
  let before = 0;
  for (const [n, { file, path }] of files.entries()) {
    const name = shared && path.includes("/") ? path.slice(path.indexOf("/") + 1) : path;
    await put(`/api/file?${new URLSearchParams({ text: id, name })}`, file, (sent) => tell({ text: id, done: before + sent, all, at: n + 1, of: files.length }), signal);
    before += file.size;
  }
  return id;
}

/** By XMLHttpRequest, which says how much has gone. */
function put(path: string, file: File, tell: (sent: number) => void, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", path);
    request.setRequestHeader("Authorization", `Bearer ${TOKEN}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => tell(event.loaded);
    request.onload = () => {
      if (request.status < 300) return resolve();
      let told: { error?: { message?: string; code?: string } } = {};
      try {
        told = JSON.parse(request.responseText) as typeof told;
      } catch {
        // no words of the server's
      }
      reject(new Refused(request.status, told.error?.message ?? String(request.status), told.error?.code ?? ""));
    };
    request.onerror = () => reject(new Refused(0, "", "gone"));
    request.onabort = () => reject(new DOMException("", "AbortError"));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(file);
  });
}
