package brief

import (
	"strings"
	"testing"
)

// judged are the answers of a language: summaries that have to pass, several of which begin like an answer that does
// not, and answers that have to be refused.
type judged struct {
	good                           []string
	refusals, nones, talks, looped []string
}

var languages = map[string]judged{
	"English": {
		good: []string{
			"I'm Sorry by Brenda Lee is the song that the user practises for the wedding.", "The existing summary table of the report has to move to page two.",
			"Sorry seems to be the hardest word, the user sings, and Elton John is her idol.", "None of the exercises helped.", "Unfortunately the recital was cancelled; the user wants a new date.",
			"I cannot eat gluten, and I won't travel before June.", "I can't help my mother move on Friday, because of my back.", "There is nothing the user likes more than Bach.",
			"Here is where the user lives: Hamburg. She plays the cello.", "As an AI engineer, the user builds agents.", "Nothing is decided about the flat yet; the user prefers Lisbon.",
			"Sure-footed on ice, the user trains for the race.", "Understood as a waltz, the piece is too fast, the user says.", "No summary judgment was granted in the user's lawsuit.",
			"The new turns of the dance are still hard for the user.", "I am unable to run since the operation in May.", "The updated summary page of the user's app goes live on June 12.",
		},
		refusals: []string{"I'm sorry, but I can't assist with that.", "I’m really sorry. I cannot do this.", "I cannot summarize this conversation because it has no content.", "Unfortunately, I am unable to provide a summary.", "As an AI language model, I don't have access to it.", "My apologies, but I cannot comply with this request.", "I won't be able to help with that.", "I apologize, but I must decline."},
		nones:    []string{"None", "N/A", "No new information.", "There is nothing to summarize.", "Nothing new to add.", "No relevant information available.", "There are no new turns to summarize."},
		talks:    []string{"Here is the updated summary: She plays.", "Certainly! Here's a concise summary.", "The updated summary is as follows.", "I have updated the summary.", "Please provide the conversation.", "It looks like you haven't shared any turns.", "Understood.", "Based on the new turns, she plays."},
		looped:   []string{strings.Repeat("She practises the cello every day at home. ", 5)},
	},
	"German": {
		good: []string{
			"Entschuldigungsschreiben für die Schule: Anna war am 3. Juni krank.", "Leider hat Anna die Prüfung nicht bestanden und lernt weiter.", "Ich kann kein Gluten essen und will im Juni nach Köln.",
			"Als KI-Forscherin arbeitet sie in Köln.", "Nichts ist ihr wichtiger als das Konzert am 12. Juni.", "Hier ist die Adresse der Nutzerin wichtig: Hauptstraße 3, Köln.", "Keine Milch, keine Nüsse: die Allergien der Nutzerin.",
			"Entschuldigung heißt das Lied, das Anna übt.", "Ich kann am Freitag nicht kommen, weil ich Probe habe.", "Die neuen Runden im Turnier beginnen im Mai.",
		},
		refusals: []string{"Es tut mir leid, aber dabei kann ich nicht helfen.", "Entschuldigung, ich kann das nicht zusammenfassen.", "Tut mir leid.", "Ich kann diese Unterhaltung leider nicht zusammenfassen.", "Als KI-Sprachmodell habe ich keinen Zugriff darauf.", "Ich bin nicht in der Lage, eine Zusammenfassung zu erstellen."},
		nones:    []string{"Keine.", "Nichts Neues", "Keine neuen Informationen.", "Es gibt nichts zusammenzufassen."},
		talks:    []string{"Hier ist die aktualisierte Zusammenfassung: Sie übt.", "Gerne! Hier ist die Zusammenfassung.", "Die aktualisierte Zusammenfassung lautet: x", "Ich habe die Zusammenfassung aktualisiert."},
		looped:   []string{strings.Repeat("Anna übt jeden Tag zehn Minuten die Tonleiter langsam. ", 5)},
	},
	"French": {
		good:     []string{"Je ne peux pas manger de gluten et je pars en juin.", "Désolé d'être en retard est le titre de sa chanson.", "Aucun exercice n'a aidé son pouce.", "Rien ne presse : le concert est en juin.", "Voici où elle habite : Lyon. Elle joue du violoncelle."},
		refusals: []string{"Je suis désolé, mais je ne peux pas vous aider.", "Désolée.", "Je ne peux pas résumer cette conversation.", "Je ne suis pas en mesure de fournir un résumé."},
		nones:    []string{"Aucun.", "Rien à résumer", "Aucune information nouvelle."},
		talks:    []string{"Voici le résumé mis à jour : elle joue.", "Bien sûr, voici un résumé.", "Le résumé existant est vide."},
		looped:   []string{strings.Repeat("Elle joue du violoncelle tous les jours chez elle le soir. ", 5)},
	},
	"Spanish": {
		good:     []string{"No puedo comer gluten y quiero viajar en junio.", "Lo siento es la canción que ensaya para la boda.", "Nada le importa más que el concierto de junio.", "No puedo ayudar a mi madre el viernes.", "Ninguno de los ejercicios le ayudó.", "Aquí está su casa: Madrid, calle Mayor 3."},
		refusals: []string{"Lo siento, pero no puedo ayudar con eso.", "No puedo resumir esta conversación.", "Lo lamento.", "Como modelo de lenguaje, no tengo acceso."},
		nones:    []string{"Ninguno", "No hay nada que resumir.", "Sin cambios", "No hay información nueva."},
		talks:    []string{"Aquí está el resumen actualizado: ella toca.", "¡Claro! Aquí tienes el resumen.", "He actualizado el resumen."},
		looped:   []string{strings.Repeat("Ella toca el violonchelo todos los días en su casa. ", 5)},
	},
	"Portuguese": {
		good:     []string{"Não posso comer glúten e viajo em junho.", "Nada é mais importante para ela do que o concerto.", "Desculpe o Transtorno é o filme favorito dela.", "Aqui está o endereço dela: Lisboa."},
		refusals: []string{"Desculpe, mas não posso ajudar com isso.", "Sinto muito.", "Não consigo resumir esta conversa."},
		nones:    []string{"Nenhum", "Não há nada para resumir.", "Nada novo."},
		talks:    []string{"Aqui está o resumo atualizado: ela toca.", "Claro! Aqui está um resumo.", "Segue o resumo."},
		looped:   []string{strings.Repeat("Ela toca violoncelo todos os dias em sua casa à noite. ", 5)},
	},
	"Italian": {
		good:     []string{"Non posso mangiare glutine e parto a giugno.", "Niente le importa più del concerto.", "Scusa ma ti chiamo amore è il suo film preferito.", "Ecco dove abita: Roma."},
		refusals: []string{"Mi dispiace, ma non posso aiutarti.", "Non posso riassumere questa conversazione.", "Spiacente."},
		nones:    []string{"Nessuno", "Niente da riassumere.", "Nessuna nuova informazione."},
		talks:    []string{"Ecco il riassunto aggiornato: lei suona.", "Certo! Ecco il riepilogo.", "Ho aggiornato il riassunto."},
		looped:   []string{strings.Repeat("Lei suona il violoncello ogni giorno a casa la sera. ", 5)},
	},
	"Dutch": {
		good:     []string{"Ik kan geen gluten eten en ga in juni op reis.", "Geen van de oefeningen hielp.", "Sorry is het lied dat zij oefent voor de bruiloft.", "Hier is haar adres van belang: Utrecht."},
		refusals: []string{"Het spijt me, maar ik kan je daar niet mee helpen.", "Sorry, ik kan dit gesprek niet samenvatten.", "Het spijt me."},
		nones:    []string{"Geen", "Niets nieuws", "Er is niets om samen te vatten."},
		talks:    []string{"Hier is de bijgewerkte samenvatting: zij speelt.", "Natuurlijk! Hier volgt een samenvatting.", "Ik heb de samenvatting bijgewerkt."},
		looped:   []string{strings.Repeat("Zij speelt elke dag thuis op haar oude cello in Utrecht. ", 5)},
	},
	"Polish": {
		good:     []string{"Nie mogę jeść glutenu i w czerwcu wyjeżdżam.", "Przepraszam za spóźnienie to tytuł jej opowiadania.", "Nic nie jest dla niej ważniejsze niż koncert.", "Brak czasu to jej główny problem."},
		refusals: []string{"Przepraszam, ale nie mogę w tym pomóc.", "Niestety nie mogę streścić tej rozmowy.", "Przykro mi."},
		nones:    []string{"Brak", "Nic nowego", "Brak nowych informacji."},
		talks:    []string{"Oto zaktualizowane streszczenie: ona gra.", "Oczywiście! Oto podsumowanie."},
		looped:   []string{strings.Repeat("Ona gra na wiolonczeli codziennie w domu przez godzinę rano. ", 5)},
	},
	"Russian": {
		good:     []string{"Я не могу есть глютен и в июне еду в Казань.", "К сожалению, концерт отменили, и она ищет новую дату.", "Ничего важнее концерта для неё нет.", "Нет молока и орехов: у неё аллергия.", "Извините за беспокойство — её любимый рассказ."},
		refusals: []string{"Извините, но я не могу помочь с этим.", "К сожалению, я не могу выполнить этот запрос.", "Мне жаль.", "Я не могу обобщить этот разговор."},
		nones:    []string{"Нет.", "Ничего нового", "Нет новой информации."},
		talks:    []string{"Вот обновлённое резюме: она играет.", "Конечно! Вот краткое изложение.", "Я обновила резюме."},
		looped:   []string{strings.Repeat("Она играет на виолончели каждый день дома по вечерам час. ", 5)},
	},
	"Ukrainian": {
		good:     []string{"Я не можу їсти глютен і в червні їду до Львова.", "На жаль, концерт скасували, і вона шукає нову дату.", "Нічого важливішого за концерт для неї немає."},
		refusals: []string{"Вибачте, але я не можу допомогти з цим.", "На жаль, я не можу підсумувати цю розмову.", "Перепрошую."},
		nones:    []string{"Немає", "Нічого нового", "Немає нової інформації."},
		talks:    []string{"Ось оновлений підсумок: вона грає.", "Звичайно! Ось підсумок."},
		looped:   []string{strings.Repeat("Вона грає на віолончелі щодня вдома ввечері одну годину. ", 5)},
	},
	"Arabic": {
		good:     []string{"آسفي: مدينة المستخدمة، وهي تعزف على التشيلو.", "لا أستطيع أكل الغلوتين وسأسافر في يونيو.", "لا شيء أهم عندها من حفلة يونيو.", "للأسف ألغيت الحفلة وتبحث المستخدمة عن موعد جديد.", "آسف على التأخير هو عنوان قصتها."},
		refusals: []string{"آسف، لا أستطيع مساعدتك في ذلك.", "عذرًا، لا يمكنني تلخيص هذه المحادثة.", "أعتذر.", "لا يمكنني تقديم ملخص."},
		nones:    []string{"لا شيء", "لا يوجد", "لا توجد معلومات جديدة."},
		talks:    []string{"إليك الملخص المحدث: هي تعزف.", "بالتأكيد! فيما يلي ملخص."},
		looped:   []string{strings.Repeat("تعزف المستخدمة على التشيلو كل يوم في بيتها مساء. ", 5)},
	},
	"Hindi": {
		good:     []string{"नहीं खाती वह ग्लूटेन, और जून में यात्रा करेगी।", "मैं ग्लूटेन नहीं खा सकती और जून में यात्रा करूँगी।", "कोई भी अभ्यास काम नहीं आया।", "माफ़ करना नाम का गाना वह शादी के लिए सीख रही है।", "यहाँ उसका घर है: पुणे।"},
		refusals: []string{"मुझे खेद है, मैं मदद नहीं कर सकता।", "क्षमा करें, मैं इस बातचीत का सारांश नहीं बना सकता।", "क्षमा करें।", "मैं इसमें आपकी मदद नहीं कर सकती।"},
		nones:    []string{"नहीं", "नहीं।", "कोई नहीं", "कुछ नहीं", "कोई नई जानकारी नहीं है।"},
		talks:    []string{"यहाँ अद्यतन सारांश है: वह बजाती है।", "ज़रूर! यह रहा सारांश।"},
		looped:   []string{strings.Repeat("वह रोज़ दस मिनट घर पर चेलो का अभ्यास करती है। ", 5)},
	},
	"Bengali": {
		good:     []string{"আমি গ্লুটেন খেতে পারি না এবং জুনে ভ্রমণ করব।", "কিছু অনুশীলন তার বুড়ো আঙুলের জন্য কঠিন।", "দুঃখিত নামের গানটি সে বিয়ের জন্য শিখছে।"},
		refusals: []string{"দুঃখিত, আমি এতে সাহায্য করতে পারছি না।", "আমি দুঃখিত।", "আমি এই কথোপকথনের সারাংশ দিতে পারব না।"},
		nones:    []string{"কিছুই না", "নেই", "কোনো নতুন তথ্য নেই।"},
		talks:    []string{"এখানে সারাংশ দেওয়া হলো: সে বাজায়।", "অবশ্যই!"},
		looped:   []string{strings.Repeat("সে প্রতিদিন দশ মিনিট বাড়িতে চেলো বাজানো অনুশীলন করে থাকে। ", 5)},
	},
	"Chinese": {
		good:     []string{"我不能吃麸质，六月要去旅行。", "没有什么比六月的音乐会更重要。", "对不起我爱你是她最喜欢的歌。", "无麸质饮食是她的要求，演出在六月十二日。", "以下是她的地址：上海市。她拉大提琴。", "没有牛奶，没有坚果：她过敏。", "她住在上海，拉大提琴，想在六月十二日的音乐会上背谱演奏巴赫的第一组曲；老师建议每天慢练十分钟。"},
		refusals: []string{"抱歉，我无法总结这段对话。", "对不起，我不能帮助您。", "很抱歉。", "作为一个AI语言模型，我没有记忆。", "我无法提供摘要。"},
		nones:    []string{"没有", "无。", "没有新的信息", "沒有", "没有需要总结的内容。"},
		talks:    []string{"以下是更新后的摘要：她拉琴。", "好的，以下是总结。", "我已更新摘要。"},
		looped:   []string{strings.Repeat("她每天在家里慢慢地练习大提琴十分钟。", 5)},
	},
	"Japanese": {
		good:     []string{"私はグルテンを食べることができません。六月に旅行します。", "なしのつぶてだった先生から、六月に返事が来た。", "すみませんという歌を結婚式のために練習している。", "ユーザーはこの長い文書を要約できませんでしたが、翌日に完成させた。", "以下の曲を練習している：組曲第一番。", strings.Repeat("利用者は", 2) + "チェロを弾き、六月の演奏会で組曲を暗譜したい。助手は毎日十分の音階練習を勧めることにした。"},
		refusals: []string{"申し訳ありませんが、お手伝いできません。", "すみません。", "申し訳ございませんが、この会話を要約することはできません。", "このリクエストには対応できません。"},
		nones:    []string{"なし", "ありません。", "新しい情報はありません。", "特になし"},
		talks:    []string{"以下は更新された要約です。", "もちろんです。以下がまとめです。", "かしこまりました。"},
		looped:   []string{strings.Repeat("利用者は毎日家でゆっくりと音階を練習することにした。", 5)},
	},
	"Korean": {
		good:     []string{"저는 글루텐을 먹을 수 없고 유월에 여행을 갑니다.", "없음이라는 제목의 노래를 결혼식을 위해 연습한다.", "죄송합니다라는 노래를 좋아하고 첼로를 켠다.", "다음은 사용자의 주소가 중요하다: 서울."},
		refusals: []string{"죄송하지만 도와드릴 수 없습니다.", "죄송합니다.", "이 대화를 요약할 수 없습니다."},
		nones:    []string{"없음", "없습니다.", "새로운 정보가 없습니다.", "해당 없음"},
		talks:    []string{"다음은 업데이트된 요약입니다.", "물론입니다!", "요약을 업데이트했습니다."},
		looped:   []string{strings.Repeat("사용자는 매일 집에서 천천히 첼로로 음계를 십 분씩 연습한다. ", 5)},
	},
	"Thai": {
		good: []string{"ผู้ใช้เล่นเชลโลและเตรียมตัวสำหรับการแสดงวันที่ 12 มิถุนายน ผู้ช่วยแนะนำให้ฝึกสเกลช้า ๆ วันละสิบนาที ผู้ใช้ต้องการเล่นชุดที่หนึ่งของบาคโดยไม่ดูโน้ต ผู้ใช้ต้องการเปลี่ยนสายใหม่ก่อนเดือนพฤษภาคม ผู้ใช้ต้องการจองห้องซ้อม ผู้ใช้ต้องการครูคนใหม่",
			"ไม่มีอะไรสำคัญกว่าการแสดงในเดือนมิถุนายน", "ขอโทษที่รักเป็นเพลงที่เธอชอบ", "ฉันไม่สามารถกินกลูเตนได้"},
		refusals: []string{"ขออภัย ฉันไม่สามารถช่วยเรื่องนี้ได้", "ขอโทษครับ", "ฉันไม่สามารถสรุปบทสนทนานี้ได้"},
		nones:    []string{"ไม่มี", "ไม่มีข้อมูลใหม่", "ไม่มี."},
		talks:    []string{"นี่คือบทสรุปที่อัปเดต: เธอเล่น", "แน่นอนค่ะ"},
		looped:   []string{strings.Repeat("ผู้ใช้ฝึกเชลโลช้าๆที่บ้านทุกวันวันละสิบนาที ", 5)},
	},
	"Khmer": {
		good: []string{"អ្នកប្រើប្រាស់លេងសែលឡូ និងរៀបចំសម្រាប់ការប្រគុំតន្ត្រីនៅថ្ងៃទី១២ ខែមិថុនា។ អ្នកប្រើប្រាស់ចង់រៀនបទថ្មី។ អ្នកប្រើប្រាស់ចង់ប្តូរខ្សែ។ អ្នកប្រើប្រាស់ចង់ជួលបន្ទប់ហាត់។ អ្នកប្រើប្រាស់ចង់បានគ្រូថ្មី។",
			"គ្មានអ្វីសំខាន់ជាងការប្រគុំតន្ត្រីទេ សម្រាប់អ្នកប្រើប្រាស់។", "ខ្ញុំមិនអាចញ៉ាំគ្លុយតែនបានទេ។"},
		refusals: []string{"សូមអភ័យទោស ខ្ញុំមិនអាចជួយបានទេ។", "សូមទោស។", "ខ្ញុំមិនអាចសង្ខេបការសន្ទនានេះបានទេ។"},
		nones:    []string{"គ្មាន", "មិនមាន។", "គ្មានព័ត៌មានថ្មី"},
		talks:    []string{"នេះជាសេចក្តីសង្ខេប៖ គាត់លេង។"},
		looped:   []string{strings.Repeat("អ្នកប្រើប្រាស់ហាត់សែលឡូយឺតៗនៅផ្ទះរាល់ថ្ងៃដប់នាទី។", 5)},
	},
	"Lao": {
		good: []string{"ຜູ້ໃຊ້ຫຼິ້ນເຊວໂລ ແລະກຽມຕົວສຳລັບການສະແດງວັນທີ 12 ມິຖຸນາ. ຜູ້ໃຊ້ຕ້ອງການຮຽນເພງໃໝ່. ຜູ້ໃຊ້ຕ້ອງການປ່ຽນສາຍ. ຜູ້ໃຊ້ຕ້ອງການຈອງຫ້ອງຊ້ອມ. ຜູ້ໃຊ້ຕ້ອງການຄູໃໝ່.",
			"ບໍ່ມີຫຍັງສຳຄັນກວ່າການສະແດງ.", "ຂ້ອຍບໍ່ສາມາດກິນກລູເຕນໄດ້."},
		refusals: []string{"ຂໍໂທດ ຂ້ອຍບໍ່ສາມາດຊ່ວຍໄດ້.", "ຂໍອະໄພ.", "ຂ້ອຍບໍ່ສາມາດສະຫຼຸບການສົນທະນານີ້ໄດ້."},
		nones:    []string{"ບໍ່ມີ", "ບໍ່ມີຂໍ້ມູນໃໝ່"},
		talks:    []string{"ນີ້ແມ່ນບົດສະຫຼຸບ: ລາວຫຼິ້ນ."},
		looped:   []string{strings.Repeat("ຜູ້ໃຊ້ຝຶກເຊວໂລຊ້າໆຢູ່ເຮືອນທຸກໆມື້ມື້ລະສິບນາທີ ", 5)},
	},
	"Turkish": {
		good:     []string{"Gluten yiyemem ve haziranda seyahat edeceğim.", "Hiçbir şey konserden daha önemli değil.", "Özür dilerim adlı şarkıyı düğün için çalışıyor.", "Yok satan albümü arıyor ve çello çalıyor."},
		refusals: []string{"Üzgünüm, bu konuda yardımcı olamam.", "Özür dilerim.", "Bu konuşmayı özetleyemem."},
		nones:    []string{"Yok", "Hiçbir şey", "Yeni bilgi yok."},
		talks:    []string{"İşte güncellenmiş özet: çello çalıyor.", "Elbette! İşte özet."},
		looped:   []string{strings.Repeat("Her gün evde yavaşça on dakika boyunca çello ile gam çalışıyor. ", 5)},
	},
	"Vietnamese": {
		good:     []string{"Tôi không thể ăn gluten và sẽ đi du lịch vào tháng sáu.", "Không có gì quan trọng hơn buổi diễn tháng sáu.", "Xin lỗi anh yêu em là bài hát cô ấy thích.", "Đây là địa chỉ của cô ấy: Hà Nội."},
		refusals: []string{"Xin lỗi, tôi không thể giúp việc này.", "Rất tiếc.", "Tôi không thể tóm tắt cuộc trò chuyện này."},
		nones:    []string{"Không có", "Không có gì mới.", "Không có thông tin mới"},
		talks:    []string{"Đây là bản tóm tắt đã cập nhật: cô ấy chơi đàn.", "Dưới đây là tóm tắt."},
		looped:   []string{strings.Repeat("Cô ấy luyện đàn chậm rãi ở nhà mỗi ngày mười phút. ", 5)},
	},
	"Indonesian": {
		good:     []string{"Saya tidak bisa makan gluten dan akan bepergian pada bulan Juni.", "Tidak ada yang lebih penting daripada konser bulan Juni.", "Maaf adalah lagu yang ia latih untuk pernikahan.", "Ini adalah alamatnya: Bandung."},
		refusals: []string{"Maaf, saya tidak dapat membantu dengan hal itu.", "Mohon maaf.", "Saya tidak bisa merangkum percakapan ini."},
		nones:    []string{"Tidak ada", "Tidak ada informasi baru.", "Nihil"},
		talks:    []string{"Berikut adalah ringkasan yang diperbarui: ia bermain.", "Tentu! Berikut ringkasannya."},
		looped:   []string{strings.Repeat("Ia berlatih cello perlahan di rumah setiap hari selama sepuluh menit. ", 5)},
	},
}

func TestJudgeInEveryLanguage(t *testing.T) {
	t.Parallel()
	for language, answers := range languages {
		for key, texts := range map[string][]string{
			"": answers.good, "refusal": answers.refusals, "none": answers.nones, "task_talk": answers.talks, "repetition": answers.looped,
		} {
			if len(texts) == 0 {
				t.Errorf("%s: nothing is judged %q", language, key)
			}
			for _, answer := range texts {
				if refusal, _ := Judge("", answer); refusal.Key != key {
					t.Errorf("%s: %q is judged %q, want %q", language, answer, refusal.Key, key)
				}
			}
		}
	}
}

// A summary is not refused for what it reports, wherever in it that is said.
func TestJudgeReadsNoFurtherThanTheFirstSentence(t *testing.T) {
	t.Parallel()
	for language, answers := range languages {
		for _, said := range append(answers.refusals, answers.talks...) {
			if refusal, passed := Judge("", answers.good[0]+"\n"+said); !passed {
				t.Errorf("%s: with %q further on it is judged %q", language, said, refusal.Key)
			}
		}
	}
}
