// The components of aside.ts, fetched when the first of them is wanted. Solid's own `lazy` brings resources and
// suspense along, which nothing else here needs and the first load would pay for.

import { createComponent, createMemo, createSignal, type Component, type JSX } from "solid-js";

type Aside = typeof import("./aside.ts");

/** Draws nothing until the file is here. */
function later<Props extends object>(pick: (aside: Aside) => Component<Props>): Component<Props> {
  let loaded: Component<Props> | undefined;
  return (props) => {
    const [component, setComponent] = createSignal(loaded);
    if (!loaded) void import("./aside.ts").then((aside) => setComponent(() => (loaded = pick(aside))));
    return createMemo(() => {
      const Loaded = component();
      return Loaded && createComponent(Loaded, props);
    }) as unknown as JSX.Element;
  };
}

export const Details = later((aside) => aside.Details);
export const Help = later((aside) => aside.Help);
export const NewGroup = later((aside) => aside.NewGroup);
export const RowMenu = later((aside) => aside.RowMenu);
export const SettingsDialog = later((aside) => aside.SettingsDialog);
