package brief

// The phrase tables of the gate. They are compared with the opening of a text (see openingOf), so only what a summary of
// a conversation never begins with belongs here. A summary that reports such words ("The assistant said it could not …")
// passes.

// emptyAnswers are whole answers without a summary.
var emptyAnswers = map[string]bool{
	"none": true, "null": true, "nil": true, "n/a": true, "na": true, "empty": true, "undefined": true,
	"nothing": true, "no summary": true, "no changes": true, "no change": true, "no updates": true,
	"no update": true, "keine": true, "nichts": true, "ninguno": true, "nada": true, "aucun": true,
	"なし": true, "无": true, "無": true, "कोई नहीं": true, "नहीं": true, "нет": true,
}

// emptyOpenings are openings of short answers without a summary.
var emptyOpenings = []string{
	"no meaningful", "no relevant information", "no new information", "no new turns", "no information",
	"no summary available", "no summary yet", "no existing summary", "no conversation",
	"nothing to summarize", "nothing to summarise", "nothing to add", "nothing new",
	"there is nothing to", "there is no meaningful", "there is no new", "there is no relevant",
	"there are no new", "there is no conversation", "the conversation is empty",
	"es gibt nichts", "keine relevanten informationen", "keine neuen informationen", "no hay información",
	"aucune information", "要約する内容はありません", "没有需要总结", "कोई नई जानकारी नहीं",
}

// refusals are openings of answers that decline.
var refusals = []string{
	"i'm sorry", "i am sorry", "sorry, ", "sorry but", "i apologize", "i apologise", "my apologies",
	"i must decline", "i'm afraid i", "i am afraid i", "unfortunately, i ",
	"as an ai, ", "as an ai i ", "as an ai language", "as an ai assistant", "as an ai model",
	"as a language model", "as a large language model", "i'm just an ai", "i'm an ai",
	"es tut mir leid", "tut mir leid", "entschuldigung", "ich kann dabei nicht", "ich kann das nicht",
	"ich kann diese anfrage nicht", "ich kann ihnen dabei", "ich kann dir dabei", "als ki kann", "als ki bin", "als ki-sprachmodell", "als ki-assistent", "als sprachmodell",
	"lo siento", "no puedo ", "je suis désolé", "désolé", "je ne peux pas", "je ne suis pas en mesure",
	"mi dispiace", "desculpe", "sinto muito", "não posso ", "het spijt me", "извините", "к сожалению, я",
	"我很抱歉", "很抱歉", "对不起", "抱歉", "作为一个ai", "申し訳", "すみませんが", "ごめんなさい",
	"죄송하지만", "죄송합니다", "मुझे खेद है", "क्षमा करें", "माफ़ करें", "मैं इसमें मदद नहीं", "عذرا", "عذرًا", "آسف",
}

// An answer declines in the first person only with a verb of the task: an app's own instructions may have summaries say
// "I", and "I can't eat gluten" is worth keeping.
var (
	firstPerson = []string{
		"i can't ", "i cannot ", "i can not ", "i'm unable to ", "i am unable to ", "i'm not able to ",
		"i am not able to ", "i won't ", "i will not ", "i won't be able to ",
	}
	taskVerbs = []string{
		"help", "assist", "provide", "summari", "update", "comply", "fulfil", "do that", "do this", "process",
		"complete", "access", "create", "generate", "write", "produce", "continue", "engage", "respond", "answer",
	}
)

// taskTalk are openings of answers that talk about the task.
var taskTalk = []string{
	"here is the ", "here's the ", "here is an updated", "here's an updated", "here is a summary",
	"here's a summary", "here is your", "here's your", "here is my", "below is the ", "below is an updated",
	"below is a summary", "the following is the updated", "the following is a summary", "this is the updated summary",
	"sure, here", "sure! here", "sure. here", "sure, i", "sure! i", "certainly, here", "certainly! here",
	"certainly. here", "certainly! i", "of course, here", "of course! here", "okay, here", "ok, here",
	"i have updated", "i've updated", "i have summarized", "i've summarized", "i will summarize",
	"i will update", "i'll summarize", "i'll update", "i have read", "i understand the task", "understood",
	"to update the summary", "to summarize the new turns", "the existing summary", "the updated summary",
	"the new turns", "based on the new turns", "based on the existing summary", "please provide",
	"please share", "it looks like you", "it seems you", "you haven't provided", "you have not provided",
	"you asked me to", "let me summarize", "let me update", "let me know", "existingsummary", "newturns",
	"hier ist die ", "hier ist eine zusammenfassung", "gerne, hier", "natürlich, hier", "die aktualisierte zusammenfassung",
	"bitte gib ", "bitte geben sie", "aquí está el resumen", "aquí tienes", "claro, aquí", "voici le résumé",
	"voici un résumé", "bien sûr, voici", "ecco il riassunto", "aqui está o resumo", "вот обновл",
	"以下は", "以下が", "更新された要約", "以下是", "这是更新后的", "यहाँ अद्यतन", "यहाँ सारांश", "यह रहा", "다음은",
}
