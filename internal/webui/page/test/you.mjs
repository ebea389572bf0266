/** Memories in the second person: what is turned, and what is shown as it is stored. It needs no browser. */
import assert from 'node:assert/strict';
import { createServer } from 'vite';

const vite = await createServer({ server: { middlewareMode: true, ws: false, watch: null }, appType: 'custom', logLevel: 'error' });
const { you } = await vite.ssrLoadModule('/src/memories/you.ts');

const turned = `
The user lives in Porto. | You live in Porto.
User prefers oat milk | You prefer oat milk
The user is a doctor. | You are a doctor.
The user smokes. | You smoke.
The user has two cats, Pip and Squeak. | You have two cats, Pip and Squeak.
The user does not drink coffee. | You do not drink coffee.
The user cannot have caffeine. | You cannot have caffeine.
The user doesn’t drive. | You don't drive.
The user can no longer do stairs. | You can no longer do stairs.
The user always forgets their bike. | You always forget your bike.
The user no longer eats meat. | You no longer eat meat.
The user studies law. | You study law.
The user watches birds. | You watch birds.
The user focuses on chess. | You focus on chess.
The user uses Neovim. | You use Neovim.
The user goes for a run of ten kilometres on Sundays. | You go for a run of ten kilometres on Sundays.
The user grew up in Ghana. | You grew up in Ghana.
The user inherited an allotment from their father. | You inherited an allotment from your father.
The user lives with their mother. | You live with your mother.
The user has had a xylophone at home since they were seven. | You have had a xylophone at home since you were seven.
The user has renamed themselves Alex. | You have renamed yourself Alex.
The user is a Brazilian citizen who works in Dublin. | You are a Brazilian citizen who works in Dublin.
The user and their girlfriend are expecting a baby in May. | You and your girlfriend are expecting a baby in May.
The user's sister lives in Bergen. | Your sister lives in Bergen.
Der Nutzer wohnt in Porto. | Du wohnst in Porto.
Die Nutzerin arbeitet halbtags. | Du arbeitest halbtags.
Der Nutzer raucht. | Du rauchst.
Der Nutzer ist gegen Nüsse allergisch. | Du bist gegen Nüsse allergisch.
Der Nutzer heißt Jörg. | Du heißt Jörg.
Der Nutzer sitzt seit einem Unfall im Rollstuhl. | Du sitzt seit einem Unfall im Rollstuhl.
Der Nutzer fährt jeden Tag mit dem Rad zur Arbeit. | Du fährst jeden Tag mit dem Rad zur Arbeit.
Der Nutzer nimmt immer den Zug. | Du nimmst immer den Zug.
Der Nutzer möchte nicht hören, dass alles gut wird. | Du möchtest nicht hören, dass alles gut wird.
Der Nutzer hatte zwei Bandscheibenvorfälle. | Du hattest zwei Bandscheibenvorfälle.
Der Nutzer hält Hühner. | Du hältst Hühner.
Der Nutzer plant seine Hochzeit im Juni am Bodensee. | Du planst deine Hochzeit im Juni am Bodensee.
Der Nutzer erwartet im August sein zweites Kind. | Du erwartest im August dein zweites Kind.
Die Nutzerin kann wegen ihrer Hüfte nicht lange sitzen. | Du kannst wegen deiner Hüfte nicht lange sitzen.
`;

/** Somebody else may be meant, or another verb, or it is no sentence of this form. */
const stored = `
Prefers oat milk.
The user has two dogs; their names are Pip and Rex.
The user lives with Anna and their dog.
The user has a cat. They call it Momo.
The user lives with a painter in their studio.
The user has a doctor who knows their work.
The user met a couple and likes them.
The user lives in Lyon and works in Paris.
The user likes cats and dogs.
The user lives with his wife.
The user's parents sold their house.
The user's wife teaches him French.
The user interface must be dark.
The user settings are dark.
The user preferences include tea.
The user (Anna) lives in Porto.
The user told the user's mother.
Der Nutzer hat einen Hund, sein Name ist Rex.
Der Nutzer ist allergisch gegen Walnüsse und wohnt in Porto.
Der Nutzer interessiert sich für Moore.
Der Nutzer wuchs in Ghana auf.
Der Nutzer wohnt bei ihrer Mutter.
Der Nutzer und seine Frau erwarten ein Kind.
L'utilisateur habite à Lyon.
`;

const lines = (table) => table.trim().split('\n');
assert.deepEqual(lines(turned).map((line) => `${line.split(' | ')[0]} | ${you(line.split(' | ')[0])}`), lines(turned));
assert.deepEqual(lines(stored).map(you), lines(stored));
await vite.close();
