// What few visits begin with: the dialogs, the menu of a line and the panel beside a conversation. One file of their own, so that the first
// load is without them; the service worker keeps it with the rest.

export { Details } from "./Details.tsx";
export { Help } from "./Help.tsx";
export { NewGroup } from "./NewGroup.tsx";
export { RowMenu } from "./RowMenu.tsx";
export { SettingsDialog } from "./SettingsDialog.tsx";
