// Components that most visits do not show at the start: the dialogs, the chat menu and the details
// panel. They are a chunk of their own, which keeps the first load small. The service worker caches
// the chunk.

export { Details } from "./Details.tsx";
export { Help } from "./Help.tsx";
export { NewGroup } from "./NewGroup.tsx";
export { RowMenu } from "./RowMenu.tsx";
export { SettingsDialog } from "./SettingsDialog.tsx";
