// The files that came with a message: pictures as pictures, all others by their names; each is saved by a press.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Row, SentFile } from "../fold/session";
import { download } from "../parts/download";
import { Icon } from "../parts/icon";
import { shown, size } from "../parts/text";
import * as app from "../store/app";
import * as attached from "../store/attached";
import { words } from "../store/settings";

export function Files({ sessionId, row }: { sessionId: string; row: Row }) {
  if (row.files.length === 0) return null;
  return (
    <ul class="sent-files" aria-label={words.value.sent.files}>
      {row.files.map((file, number) => (
        <li key={number}>
          {attached.isPicture(file.type, file.size) && app.may("session/attachment") ? (
            <Picture file={file} place={{ sessionId, messageId: row.id, number }} />
          ) : (
            <Chip file={file} place={{ sessionId, messageId: row.id, number }} />
          )}
        </li>
      ))}
    </ul>
  );
}

interface FileProps {
  file: SentFile;
  place: attached.Place;
}

/** The name of a file, or what it is; characters that hide or reorder text are drawn. */
const nameOf = (file: SentFile) => shown(file.name || file.type);

function Chip({ file, place }: FileProps) {
  const [isReading, setReading] = useState(false);
  const inside = (
    <>
      <Icon name="file" />
      <span class="name">{nameOf(file)}</span> <span class="size">{size(file.size)}</span>
    </>
  );
  if (!app.may("session/attachment")) return <span class="sent-file">{inside}</span>;
  const save = async () => {
    setReading(true);
    try {
      download(file.name || "file", await attached.read(place));
    } catch (error) {
      if (!app.isGone(error)) app.say(error);
    } finally {
      setReading(false);
    }
  };
  const label = words.value.sent.save(nameOf(file));
  return (
    <button type="button" class="sent-file" title={label} aria-label={`${label} ${size(file.size)}`} disabled={isReading} onClick={() => void save()}>
      {inside}
    </button>
  );
}

function Picture({ file, place }: FileProps) {
  const [url, setUrl] = useState(attached.known(place));
  const [isLost, setLost] = useState(false);
  const [isLarge, setLarge] = useState(false);
  const isOpen = app.link.state.value.kind === "open";
  useEffect(() => {
    if (url !== "" || !isOpen) return;
    let isOver = false;
    attached.picture(place).then(
      (found) => !isOver && setUrl(found),
      (error: unknown) => !isOver && !app.isGone(error) && setLost(true),
    );
    return () => {
      isOver = true;
    };
  }, [isOpen]);
  // What says that it is a picture, and is none.
  if (isLost) return <Chip file={file} place={place} />;
  const label = words.value.sent.show(nameOf(file));
  return (
    <>
      <button type="button" class="sent-picture" title={label} aria-label={label} disabled={url === ""} onClick={() => setLarge(true)}>
        {url === "" ? <Icon name="file" /> : <img src={url} alt="" onError={() => setLost(true)} />}
      </button>
      {isLarge && <Large file={file} place={place} url={url} onClose={() => setLarge(false)} />}
    </>
  );
}

function Large({ file, place, url, onClose }: FileProps & { url: string; onClose(): void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="dialog large-picture" aria-label={nameOf(file)} onClose={onClose}>
      <img src={url} alt={nameOf(file)} />
      <div class="buttons">
        <Chip file={file} place={place} />
        <button type="button" class="quiet" onClick={() => dialog.current?.close()}>
          {words.value.sent.close}
        </button>
      </div>
    </dialog>
  );
}
