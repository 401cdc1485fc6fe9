// The module that virtua imports as `solid-js/web` in the build (see vite.config.ts). Solid's own
// `Dynamic` accepts every component and attribute, which adds 2 kB to the first load. virtua
// creates plain elements with a `ref`, a `style` and children.

import { effect, insert, style } from "solid-js/web";
import type { JSX } from "solid-js";

export * from "solid-js/web";

type Styles = Record<string, string>;

interface ElementProps {
  readonly component: string;
  readonly style?: Styles;
  readonly children?: JSX.Element;
  ref?(element: HTMLElement): void;
}

/** Throws if virtua passes a component instead of the name of an element. */
export function Dynamic(props: ElementProps): HTMLElement {
  if (typeof props.component !== "string") throw new Error("virtua passed a component, not the name of an element");
  const element = document.createElement(props.component);
  props.ref?.(element);
  effect((previous?: Styles): Styles => style(element, props.style ?? {}, previous ?? {}) as unknown as Styles);
  insert(element, () => props.children);
  return element;
}
