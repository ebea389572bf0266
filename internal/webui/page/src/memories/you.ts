/**
 * A memory as its user reads it: "The user lives in Porto." is shown as "You live in Porto.", and "Der Nutzer wohnt in Porto."
 * as "Du wohnst in Porto." It goes by form alone. A sentence that may mean somebody else, or whose verb is not known, is
 * shown as it is stored.
 */
export function you(text: string): string {
  return english(text) ?? german(text) ?? text;
}

function english(text: string): string | undefined {
  const [, owns, rest] = /^(?:The user|User)(['’]s)? ([^(]+)$/.exec(text) ?? [];
  if (!rest || /\b(?:user|he|she|him|his|hers?|himself|herself)\b/i.test(rest)) return undefined;
  if (owns) return /\b(?:they|them|themselves|their)\b/i.test(rest) ? undefined : `Your ${rest}`;
  const two = /^and their (\S.*)$/.exec(rest); // its verb is that of several already
  if (two) return /\b(?:they|them|their)\b/.test(two[1]) ? undefined : `You and your ${two[1]}`;
  const [, before, verb, after] = new RegExp(`^((?:(?:${adverbs}) )*)(\\S+)( .*|[.!]?)$`, 's').exec(rest.replace(/([.!])$/, ' $1')) ?? [];
  const spoken = verb && spokenTo(verb);
  if (!spoken || /^ (?:are|were|have|include)\b/.test(after) || another.test(after)) return undefined;
  const own = /\b(?:they|them|themselves|their)\b/.exec(after);
  if (own && somebody.test(after.slice(0, own.index))) return undefined; // "two dogs; their names"
  const yours = after.replace(/\bthey(['’]re)?\b/g, 'you$1').replace(/\bthem\b/g, 'you').replace(/\btheir\b/g, 'your').replace(/\bthemselves\b/g, 'yourself');
  return `You ${before}${spoken}${yours}`.replace(/ ([.!])$/, '$1');
}

const adverbs = 'also|always|currently|never|no longer|now|often|only|rarely|really|recently|sometimes|still|usually';
/** A second verb, of which nothing tells whether it is the user's. "likes cats and dogs" is shown as stored, too. */
const another = /(?:,|;|\b(?:and|or|but|then)) (?:(?:also|always|never|often|usually) )?(?!(?:this|his|its|as|us|always|sometimes|yes)\b)[a-z]+(?<!s)s\b/;
/** What "they" may mean in place of the user: plurals, and people. */
const somebody = /\b(?!(?:has|is|was|as|this|its|always|sometimes|besides|across|towards)\b)\w+(?<![sui])s\b|\b(?:people|children|family|team|couple|men|women|parents?|friends?|partner|sister|brother|and)\b/;
const irregular: Record<string, string> = { is: 'are', was: 'were', has: 'have', does: 'do', "isn't": "aren't", "wasn't": "weren't", "hasn't": "haven't", "doesn't": "don't" };
/** The same of every person. */
const unchanging = /^(?:can|cannot|can't|could|would|will|won't|should|must|may|might|had|did|didn't|bought|came|felt|found|gave|got|grew|left|lost|made|met|moved|read|said|sold|spent|studied|taught|thought|took|went|wrote|[a-z]+ed)$/;

function spokenTo(verb: string): string | undefined {
  const known = irregular[verb.replace('’', "'")];
  if (known) return known;
  if (unchanging.test(verb.replace('’', "'"))) return verb;
  if (!/^[a-z]+[^su\W]s$/.test(verb) || /(?:ing|ence)s$/.test(verb)) return undefined;
  if (/^[^aeiou]ies$/.test(verb)) return verb.slice(0, -1); // lies
  if (/ies$/.test(verb)) return `${verb.slice(0, -3)}y`;
  return /(?:ss|sh|ch|x|zz|o|cus)es$/.test(verb) && verb !== 'aches' ? verb.slice(0, -2) : verb.slice(0, -1);
}

function german(text: string): string | undefined {
  const [, who, verb, after] = /^(Der Nutzer|Die Nutzerin) (\S+?)((?: [^(]*)?|[.!])$/s.exec(text) ?? [];
  const spoken = verb && du(verb);
  if (!spoken || anders.test(after)) return undefined;
  const own = (who === 'Der Nutzer' ? /\bsein(e[mnrs]?)?\b/ : /\bihr(e[mnrs]?)?\b/).exec(after);
  if (own && nomen.test(after.slice(0, own.index))) return undefined; // "einen Hund; sein Name"
  const foreign = who === 'Der Nutzer' ? /\bihr(e[mnrs]?)?\b/ : /\bsein(e[mnrs])?\b/; // "sein" is a verb as well
  if (foreign.test(after)) return undefined;
  return `Du ${spoken}${own ? after.slice(0, own.index) + `dein${own[1] ?? ''}` + after.slice(own.index + own[0].length) : after}`;
}

/** Somebody else, a reflexive whose case is not known, or a second verb. */
const anders = /\b(?:er|sie|ihm|ihn|ihnen|sich|Nutzer(?:in)?s?)\b|(?:,|;|\b(?:und|oder|aber|sondern)) (?:ist|hat|mag|kann|will|muss|möchte|(?!(?:nicht|mit|seit|oft|jetzt|erst|fast|statt)\b)[a-zäöüß]+t)\b/;
const monate = 'Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Montag|Dienstag|Mittwoch|Donnerstag|Freitag|Samstag|Sonntag|Frühling|Frühjahr|Sommer|Herbst|Winter';
const nomen = new RegExp(`(?<![\\p{L}])(?!(?:${monate})(?!\\p{L}))\\p{Lu}`, 'u');
const starke: Record<string, string> = {
  ist: 'bist', war: 'warst', hat: 'hast', wird: 'wirst', mag: 'magst', kann: 'kannst', darf: 'darfst', soll: 'sollst', will: 'willst', muss: 'musst', weiß: 'weißt',
  tut: 'tust', lädt: 'lädst',
};

function du(verb: string): string | undefined {
  if (starke[verb]) return starke[verb];
  if (!/^[a-zäöüß]+te?$/.test(verb)) return undefined;
  if (/(?:te|hält|rät|tritt|gilt)$/.test(verb)) return `${verb}st`; // möchte, kaufte
  if (/[sßxz]t$/.test(verb)) return verb; // heißt, liest, sitzt
  return `${verb.slice(0, -1)}st`; // wohnt, arbeitet
}
