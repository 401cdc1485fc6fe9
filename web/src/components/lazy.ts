// The components of on-demand.ts, loaded when the first of them is shown. Solid's own `lazy` adds
// resources and suspense to the first load, which nothing else here needs.

import { createComponent, createMemo, createSignal, type Component, type JSX } from "solid-js";

type OnDemand = typeof import("./on-demand.ts");

/** Draws nothing until the chunk is loaded. */
function lazy<Props extends object>(pick: (components: OnDemand) => Component<Props>): Component<Props> {
  let loaded: Component<Props> | undefined;
  return (props) => {
    const [component, setComponent] = createSignal(loaded);
    if (!loaded) void import("./on-demand.ts").then((components) => setComponent(() => (loaded = pick(components))));
    return createMemo(() => {
      const Loaded = component();
      return Loaded && createComponent(Loaded, props);
    }) as unknown as JSX.Element;
  };
}

export const Details = lazy((components) => components.Details);
export const Help = lazy((components) => components.Help);
export const NewGroup = lazy((components) => components.NewGroup);
export const RowMenu = lazy((components) => components.RowMenu);
export const SettingsDialog = lazy((components) => components.SettingsDialog);
