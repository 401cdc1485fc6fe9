// The components of aside.ts, fetched when the first of them is wanted.

import { lazy } from "solid-js";

const aside = () => import("./aside.ts");

export const Details = lazy(async () => ({ default: (await aside()).Details }));
export const Help = lazy(async () => ({ default: (await aside()).Help }));
export const NewGroup = lazy(async () => ({ default: (await aside()).NewGroup }));
export const SettingsDialog = lazy(async () => ({ default: (await aside()).SettingsDialog }));
