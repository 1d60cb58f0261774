// The folder that a session works in: chosen for one that is to be made, and said of one that is open.
import { Icon } from "../parts/icon";
import { shown } from "../parts/text";
import * as app from "../store/app";
import * as compose from "../store/compose";
import { folders, isOwn, nameOf, readFolders, usual } from "../store/folders";
import { useResource } from "../store/lists";
import { words } from "../store/settings";

/** Above what is written for a new session; nothing, where the daemon has no folder to choose. */
export function ChosenFolder() {
  const its = words.value.composer;
  useResource(readFolders, ["roots"]);
  const chosen = compose.choices.value.folder ?? usual.value;
  const all = chosen === "" || folders.value.includes(chosen) ? folders.value : [chosen, ...folders.value];
  if (all.length === 0) return null;
  return (
    <label class="where" title={chosen === "" ? its.folderHint : shown(chosen)}>
      <Icon name="folder" />
      <span class="who">{its.folder}</span>
      <select value={chosen} onChange={(event) => compose.choose({ folder: event.currentTarget.value })}>
        {all.map((each) => (
          <option key={each} value={each}>
            {shown(nameOf(each))} – {shown(each)}
          </option>
        ))}
        <option value="">{its.ownFolder}</option>
      </select>
    </label>
  );
}

/** In the top bar, beside the agent. */
export function Folder() {
  void app.revision.value; // the session is changed in place
  const its = words.value.composer;
  const id = compose.place.value;
  const folder = app.sessions.value.find((each) => each.session_id === id)?.workspace || app.open.value?.workspace || "";
  if (id === "" || folder === "") return null;
  return (
    <span class="folder" title={shown(folder)} aria-label={`${its.folder}: ${shown(folder)}`} role="note">
      <Icon name="folder" />
      <span>{isOwn(folder) ? its.ownFolderShort : shown(nameOf(folder))}</span>
    </span>
  );
}
