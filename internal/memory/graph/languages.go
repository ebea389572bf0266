package graph

import (
	"maps"
	"slices"
	"strings"
)

// families are the relationships that one word of a question may mean.
var families = map[string][]string{
	"like":    {"likes", "prefers", "uses", "admires", "enjoys", "loves"},
	"prefer":  {"prefers"},
	"love":    {"loves", "likes", "enjoys", "admires"},
	"dislike": {"dislikes", "hates", "avoids"},
	"use":     {"uses", "works_with", "prefers"},
	"live":    {"lives_in", "lives_at", "moved_to", "resides_in"},
	"from":    {"from", "comes_from", "born_in", "grew_up_in"},
	"work":    {"works_at", "works_for", "works_on", "works_with", "works_in", "employed_by"},
	"build":   {"builds", "develops", "maintains", "works_on", "created", "creates"},
	"own":     {"owns", "has", "bought"},
	"know":    {"knows", "friend_of", "married_to", "partner_of", "sibling_of", "parent_of", "child_of", "colleague_of", "works_with"},
	"family":  {"married_to", "partner_of", "sibling_of", "parent_of", "child_of", "has_child", "has_sibling", "has_parent", "has_partner"},
	"learn":   {"learns", "is_learning", "studies", "studies_at"},
	"play":    {"plays"},
	"speak":   {"speaks"},
	"visit":   {"visits", "visited", "travelled_to", "traveled_to", "moved_to"},
	"health":  {"allergic_to", "has_condition", "suffers_from", "diagnosed_with", "struggles_with", "has"},
	"allergy": {"allergic_to"},
	"trouble": {"struggles_with", "suffers_from", "has_trouble_with"},
	"plan":    {"plans", "plans_to", "wants", "wants_to"},
	"eat":     {"eats", "drinks", "likes", "prefers"},
}

// familyOf names the family of a word, typesOf the types that one means, askingFor those that it asks for, in English, German, French, Spanish, Italian
// and Portuguese.
var (
	familyOf = indexOf(map[string]string{
		"like":    "like likes liked fond mag mögen gefällt gefallen aime aimes aimé gusta gustan gusto piace piacciono gosto gosta",
		"prefer":  "prefer prefers preferred favourite favorite bevorzuge bevorzugt lieblings préfère préféré préférés prefiero preferido preferisco preferito prefiro",
		"love":    "love loves liebe adore adoro encanta encantan amo",
		"dislike": "dislike dislikes hate hates avoid avoids hasse meide déteste évite odio evito odeio",
		"use":     "use uses using benutze benutzen nutze verwende utilise emploie uso utilizo utilizzo",
		"live":    "live lives living wohne wohnen lebe habite vis vivo moro abito",
		"from":    "komme stamme viens vengo venho born grew geboren né née nací nato nasci",
		"work":    "work works working job arbeite arbeiten travaille trabajo lavoro trabalho",
		"build":   "build builds building develop maintain make baue entwickle construis développe construyo desarrollo costruisco sviluppo construo desenvolvo",
		"own":     "own owns possess besitze habe possède tengo possiedo tenho",
		"know":    "know knows kenne kennen connais conozco conosco conheço",
		"family":  "family relatives familie famille familia famiglia família",
		"learn":   "learn learning study studying lerne studiere apprends étudie aprendo estudio imparo studio estudo",
		"play":    "play plays instrument spiele joue toco juego suono gioco jogo",
		"speak":   "speak speaks languages spreche sprachen parle langues hablo idiomas parlo lingue falo línguas",
		"visit":   "visit visited travel travelled been besucht gereist visité voyagé viajado visitato visitei",
		"health":  "health illness illnesses gesundheit krankheiten santé maladies salud enfermedades salute malattie saúde doenças",
		"allergy": "allergic allergy allergies allergisch allergie allergien allergique alérgico alérgica alergia alergias allergico allergica",
		"trouble": "struggle struggles trouble schwierigkeiten difficultés dificultades difficoltà dificuldades",
		"plan":    "plan plans planning plane vorhabe projette planeo prévois progetto planejo",
		"eat":     "eat drink esse trinke mange bois bebo mangio bevo",
	}, func(family string) string { return family })

	typesOf = indexOf(map[string]string{
		"person":       "person people persons personen leute menschen personne personnes gens personas gente persone pessoas",
		"organization": "organization organizations organisation organisations company companies employer firm firma firmen unternehmen entreprise entreprises sociétés empresa empresas azienda aziende",
		"place":        "place places city cities country countries ort orte stadt städte land lieu lieux ville villes lugar lugares ciudad ciudades luogo luoghi città cidade cidades",
		"project":      "project projects projekt projekte projet projets proyecto proyectos progetti projeto projetos",
		"product":      "product products produkt produkte produit produits producto productos prodotto prodotti produto produtos",
		"tool":         "tool tools app apps software program programs editor editors werkzeug werkzeuge tools programm programme outil outils logiciel logiciels herramienta herramientas strumento strumenti ferramenta ferramentas",
		"concept":      "concept concepts topic topics idea ideas subject subjects konzept konzepte thema themen idee ideen sujet sujets concepto conceptos tema temas concetto concetti argomenti conceito conceitos",
		"condition":    "condition conditions illness illnesses disease diseases krankheit krankheiten maladie maladies enfermedad enfermedades malattia malattie doença doenças",
		"event":        "event events ereignis ereignisse veranstaltungen événement événements evento eventos eventi",
	}, oneType)

	askingFor = indexOf(map[string]string{
		"person": "who whom wer wen wem qui quién quien chi quem",
		"place":  "where wo où dónde donde dove onde",
	}, oneType)
)

func oneType(name string) []Type { return []Type{Type(name)} }

// indexOf turns a table of words by name around.
func indexOf[V any](words map[string]string, value func(name string) V) map[string]V {
	index := map[string]V{}
	for _, name := range slices.Sorted(maps.Keys(words)) {
		for word := range strings.FieldsSeq(words[name]) {
			index[word] = value(name)
		}
	}
	return index
}
