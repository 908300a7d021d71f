// Translating a sentence, with where the model looked while it wrote each word.
import { useEffect, useState } from "preact/hooks";
import { short } from "../format";
import { asked } from "./api";
import { visible } from "./next";
import { Trouble } from "./pieces";
import type { Model } from "./play";
import { put, useRoute } from "./route";
import { useWords } from "./words";

interface Translated { translations: { text: string; score: number }[]; source: string[]; target?: string[]; weights?: number[][] }

export function Translation({ model }: { model: Model }) {
  const { s } = useWords(), { at } = useRoute(), [typed, setTyped] = useState(at.get("source") ?? ""), [found, setFound] = useState<Translated | null>(null);
  const [trouble, setTrouble] = useState<unknown>(null), [busy, setBusy] = useState(false), [over, setOver] = useState<number | null>(null);
  const translate = async () => {
    setBusy(true);
    put({ source: typed });
    try {
      setFound(await asked<Translated>("/api/translate", { body: { model: model.name, source: typed } }));
      setTrouble(null);
    } catch (error) {
      setTrouble(error);
    }
    setBusy(false);
  };
  useEffect(() => {
    if (typed) void translate();
  }, []);
  const row = over !== null && found?.weights ? found.weights[over] : null;
  return (
    <section class="oo-translation" id="oo-translation">
      <textarea rows={2} aria-label={s.translateHint} placeholder={s.translateHint} value={typed} onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey) {
            event.preventDefault();
            void translate();
          }
        }} />
      <div class="oo-actions"><button type="button" class="oo-primary" disabled={busy || !typed.trim()} onClick={translate}>{s.translate}</button>{busy && <span class="oo-note oo-busy" role="status" />}</div>
      <Trouble of={trouble} />
      {found && found.translations.length > 0 && (
        <>
          <p class="oo-translated" aria-live="polite">{found.translations[0].text}</p>
          {found.weights && found.target ? (
            <div class="oo-scroll" tabIndex={0}>
              <table class="oo-attention" aria-label={s.attentionLabel}>
                <thead><tr><td />{found.source.map((word, n) => <th key={n} scope="col" style={row ? { "--w": row[n] } : {}}><bdi>{visible(word)}</bdi></th>)}</tr></thead>
                <tbody>{found.target.map((word, n) => (
                  <tr key={n} onMouseEnter={() => setOver(n)} onMouseLeave={() => setOver(null)}><th scope="row"><bdi>{visible(word)}</bdi></th>
                    {found.weights![n].map((weight, k) => <td key={k} style={{ "--w": weight }} title={`${word} ← ${found.source[k]}: ${short(weight)}`}><span class="oo-aside">{short(weight)}</span></td>)}</tr>
                ))}</tbody>
              </table>
              <p class="oo-note">{s.attentionLabel}</p>
            </div>
          ) : <p class="oo-note">{s.attentionNone}</p>}
          {found.translations.length > 1 && <><h3>{s.translateOthers}</h3><ol class="oo-said" start={2}>{found.translations.slice(1).map((each, n) => <li key={n}>{each.text} <small>{short(each.score)}</small></li>)}</ol></>}
        </>
      )}
    </section>
  );
}
