// The texts of the settings.
import { inBoth } from "../../store/settings";

export const its = inBoth(
  {
    look: "This browser",
    lookLead: "Kept by this browser alone.",
    language: "Language",
    theme: "Theme",
    themes: { system: "As the system", light: "Light", dark: "Dark", contrast: "High contrast" },
    density: "Density",
    densities: { comfortable: "Comfortable", compact: "Compact" },
  },
  {
    look: "此浏览器",
    lookLead: "仅保存在此浏览器中。",
    language: "语言",
    theme: "主题",
    themes: { system: "跟随系统", light: "浅色", dark: "深色", contrast: "高对比度" },
    density: "密度",
    densities: { comfortable: "宽松", compact: "紧凑" },
  },
);
