/**
 * A memory as its user reads it: "The user lives in Porto." is shown as "You live in Porto.", and "Der Nutzer wohnt in Porto."
 * as "Du wohnst in Porto." It goes by form alone. A sentence that may mean somebody else, or whose verb is not known, is
 * shown as it is stored.
 */
export function you(text: string): string {
  return english(text) ?? german(text) ?? text;
}

const anyOf = (words: string) => `(?:${words.split(/\s+/).join('|')})`;

const other = new RegExp(`\\b${anyOf('user he she him his her hers himself herself')}\\b`, 'i');
const they = /\b(?:they|them|themselves|their)\b/;
const adverb = anyOf('also always currently never now often only rarely really recently sometimes still usually no\\slonger');
const sentence = new RegExp(`^((?:${adverb} )*)(\\S+?)( .*|[.!]?)$`, 's');
/** A second verb, of which nothing tells whether it is the user's. "likes cats and dogs" is shown as stored, too. */
const another = new RegExp(`(?:[,;]|\\b(?:and|or|but|then)) (?:${adverb} )?(?!${anyOf('this his its as us always sometimes yes')}\\b)[a-z]+(?<!s)s\\b`);
/** What "they" may mean in place of the user: plurals, and people. */
const people = anyOf('who whose that and people children family team couple men women parent friend partner sister brother');
const somebody = new RegExp(`\\b${people}\\b|\\bwith \\S|\\b(?!${anyOf('has is was as this its always sometimes across towards')}\\b)\\w+(?<![sui])s\\b`);

function english(text: string): string | undefined {
  const [, owns, rest] = /^(?:The user|User)(['’]s)? ([^(]+)$/.exec(text) ?? [];
  if (!rest || other.test(rest) || /\bThe(?:y|m|irs?)\b/.test(rest)) return undefined;
  if (owns) return they.test(rest) ? undefined : `Your ${rest}`;
  const [, both] = /^and their (\S.*)$/.exec(rest) ?? []; // its verb is that of several already
  if (both) return they.test(both) ? undefined : `You and your ${both}`;
  const [, before, verb, after] = sentence.exec(rest) ?? [];
  const said = verb && saidToYou(verb.replace('’', "'"));
  if (!said || (said !== verb && /^ (?:are|were|have|include)\b/.test(after)) || another.test(after)) return undefined;
  const own = they.exec(after);
  if (own && somebody.test(after.slice(0, own.index))) return undefined; // "two dogs; their names"
  const yours = after.replace(/\bthey\b/g, 'you').replace(/\bthem\b/g, 'you').replace(/\btheir\b/g, 'your').replace(/\bthemselves\b/g, 'yourself');
  return `You ${before}${said}${yours}`;
}

const irregular: Record<string, string> = {
  is: 'are', was: 'were', has: 'have', does: 'do', "isn't": "aren't", "wasn't": "weren't", "hasn't": "haven't", "doesn't": "don't",
};
/** The same of every person. */
const unchanging = new RegExp(`^${anyOf("can cannot can't could would will won't should must may might had did didn't bought came felt found gave \
got grew left lost made met quit read said sold spent taught thought took went wrote [a-z]+ed")}$`);

function saidToYou(verb: string): string | undefined {
  if (irregular[verb] || unchanging.test(verb)) return irregular[verb] ?? verb;
  if (!/^[a-z]+[^su\W]s$/.test(verb) || /(?:ing|ence)s$/.test(verb)) return undefined;
  if (/[^aeiou]ies$/.test(verb) && verb.length > 4) return `${verb.slice(0, -3)}y`; // but lies
  return /(?:ss|sh|ch|x|zz|o|cus)es$/.test(verb) && verb !== 'aches' ? verb.slice(0, -2) : verb.slice(0, -1);
}

/** Somebody else, a reflexive whose case is not known, or a second verb. */
const anders = new RegExp(`\\b${anyOf('er sie ihm ihn ihnen sich Nutzers? Nutzerin')}\\b|(?:[,;]|\\b(?:und|oder|aber|sondern)) \
(?:${anyOf('mag kann will muss')}|(?!${anyOf('nicht mit seit oft jetzt erst fast statt')}\\b)[a-zäöüß]+te?)\\b`);
const time = anyOf('Januar Februar März April Mai Juni Juli August September Oktober November Dezember Montag Dienstag Mittwoch Donnerstag \
Freitag Samstag Sonntag Frühling Frühjahr Sommer Herbst Winter');
const noun = new RegExp(`(?<!\\p{L})(?!${time}(?!\\p{L}))\\p{Lu}`, 'u');

function german(text: string): string | undefined {
  const [, article, verb, after] = /^(Der Nutzer|Die Nutzerin) (\S+?)((?: [^(]*)?|[.!])$/s.exec(text) ?? [];
  const said = verb && saidToDu(verb);
  if (!said || anders.test(after)) return undefined;
  const [his, her] = [/\bsein(e[mnrs]?)?\b/, /\bihr(e[mnrs]?)?\b/];
  const [own, foreign] = article === 'Der Nutzer' ? [his.exec(after), her] : [her.exec(after), /\bseine[mnrs]?\b/]; // "sein" is a verb as well
  if (foreign.test(after) || (own && noun.test(after.slice(0, own.index)))) return undefined; // "einen Hund; sein Name"
  return `Du ${said}${own ? `${after.slice(0, own.index)}dein${own[1] ?? ''}${after.slice(own.index + own[0].length)}` : after}`;
}

const strong: Record<string, string> = {
  ist: 'bist', war: 'warst', hat: 'hast', wird: 'wirst', mag: 'magst', kann: 'kannst', darf: 'darfst', soll: 'sollst', will: 'willst',
  muss: 'musst', weiß: 'weißt', tut: 'tust', lädt: 'lädst',
};

function saidToDu(verb: string): string | undefined {
  if (strong[verb] || !/^[a-zäöüß]+te?$/.test(verb)) return strong[verb];
  if (/(?:te|hält|rät|tritt|gilt)$/.test(verb)) return `${verb}st`; // möchte, kaufte
  return /[sßxz]t$/.test(verb) ? verb : `${verb.slice(0, -1)}st`; // heißt, sitzt; wohnt, arbeitet
}
