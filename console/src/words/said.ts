// Sentences of the daemon that people read in ordinary use, in Chinese. The wire has them in English, as records of years have: that is the
// name by which each is found here, and one that is not here is shown as it came. scripts/console-cases has the daemon say all of them.
import { language, words } from "../store/settings";

// In `English|Chinese`, what stands for one of these is: `*` anything, as it is; `~` a part of a sentence; `@` a tier or when somebody is asked.
const SENTENCES = `elevated calls ask in every preset|难以撤销的调用总会询问
@ asks: ~|策略为“@”，需要询问：~
@ asks for every @ call|策略为“@”，“@”的调用都要询问
@ asks for each new host: ~|策略为“@”，新主机都要询问：~
@ lets @ calls run|策略为“@”，“@”的调用可以运行
* is under [network] auto|* 在 [network] auto 中
a rule about * asks for such calls|* 的规则要求询问
a rule about * lets it run|* 的规则允许运行
a rule about * denies such calls|* 的规则拒绝此类调用
new file * (~)|新文件 *（~）
* (~) is replaced by ~|*（~）将替换为 ~
* (~): ~ are added to its end|*（~）末尾将追加 ~
because the program passed it|由程序指定
because --model says so|由 --model 指定
because --base-url says so|由 --base-url 指定
because agent * prefers it|代理 * 偏好它
because it is the configured default|已设为默认
because * is set|已设置 *
because a key is stored for *|已存有 * 的密钥
because a server answers at *|* 有服务器应答
because no model is configured|未设置模型
it was due while nothing fired schedules|到期时未在运行
the one before still ran|前一次仍在运行
* is set too, and wins over the stored key.|也设置了 *，它优先于存储的密钥。
General Assistant: answers, and acts with every tool there is.|通用助手：回答问题，可用全部工具。
instructions for all work in its folder|所在文件夹内所有工作的说明`;
// Whoever writes a rule or an agent may begin like these: alone, they are nobody's.
const PARTS = `~; the session has read untrusted content and private data, and ~|~；会话已读过不可信内容和私密数据，而且~
the session has read untrusted content and private data, and ~|会话已读过不可信内容和私密数据，而且~
~, and not under [network] auto|~，也不在 [network] auto 中
* is not under [network] auto|* 不在 [network] auto 中
* are not under [network] auto|* 不在 [network] auto 中
* is new to it|* 是新主机
* and * more are new to it|* 及另外 * 个是新主机
* are new to it|* 是新主机
where * connects can't be told|不知道 * 会连接哪里
its program may reach hosts, and send there what it reads|程序可能连接主机，并发出所读内容
sends * to *|发送 * 到 *
overwrites * (~)|覆盖 *（~）
deletes * and all that it holds|删除 * 及其全部内容
deletes *|删除 *
* bytes|* 字节`;

type Rules = readonly (readonly [RegExp, string])[];
/** Longer than any of them, with the names of files. */
const MAX_CHARS = 2000;
let all: Rules[] | undefined;

const named = (): Record<string, string> => ({ ...words.value.tiers, ...words.value.composer.policies });

function rulesOf(lines: string): Rules {
  const names = `(${Object.keys(named()).join("|")})`;
  return lines.split("\n").map((each) => {
    const [english = "", chinese = ""] = each.split("|");
    return [new RegExp(`^${english.replace(/[()[\].]/g, "\\$&").replace(/[*~]/g, "([^]+?)").replaceAll("@", names)}$`), chinese];
  });
}

/** A sentence of the daemon as it is shown: in Chinese, if it is known and Chinese is read. */
export function said(text: string): string {
  if (language.value === "en" || text.length > MAX_CHARS) return text;
  const [sentences = [], parts = []] = (all ??= [SENTENCES, PARTS].map(rulesOf));
  const known = (rules: Rules, its: string): string => {
    for (const [pattern, chinese] of rules) {
      const found = pattern.exec(its);
      let at = 0;
      if (found === null) continue;
      return chinese.replace(/[*~@]/g, (sign) => {
        const each = found[++at] ?? "";
        return sign === "*" ? each : sign === "~" ? known(parts, each) : (named()[each] ?? each);
      });
    }
    return its;
  };
  return known(sentences, text);
}
