package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// tongue is a fact as people say it in a language, as it is to be remembered, and the same in English.
type tongue struct{ lang, says, fact, english string }

var tongues = []tongue{
	{"en", "I play the cello in a quartet on Fridays.", "The user plays the cello in a quartet on Fridays.", ""},
	{"de", "Ich spiele freitags Cello in einem Quartett.", "Die Person spielt freitags Cello in einem " +
		"Quartett.", "The user plays the cello in a quartet on Fridays."},
	{"fr", "Je joue du violoncelle dans un quatuor le vendredi.", "L'utilisateur joue du violoncelle dans un quatuor le " +
		"vendredi.", "The user plays the cello in a quartet on Fridays."},
	{"es", "Toco el violonchelo en un cuarteto los viernes.", "El usuario toca el violonchelo en un cuarteto los " +
		"viernes.", "The user plays the cello in a quartet on Fridays."},
	{"it", "Suono il violoncello in un quartetto il venerdì.", "L'utente suona il violoncello in un quartetto il " +
		"venerdì.", "The user plays the cello in a quartet on Fridays."},
	{"pt", "Eu toco violoncelo em um quarteto às sextas-feiras.", "O usuário toca violoncelo em um quarteto às " +
		"sextas-feiras.", "The user plays the cello in a quartet on Fridays."},
	{"nl", "Ik speel op vrijdag cello in een kwartet.", "De gebruiker speelt op vrijdag cello in een " +
		"kwartet.", "The user plays the cello in a quartet on Fridays."},
	{"pl", "W piątki gram na wiolonczeli w kwartecie i bardzo to lubię.", "Użytkownik w piątki gra na wiolonczeli w kwartecie i bardzo " +
		"to lubi.", "The user plays the cello in a quartet on Fridays and likes it."},
	{"tr", "Cuma günleri bir dörtlüde çello çalıyorum ve bunu çok seviyorum.", "Kullanıcı cuma günleri bir dörtlüde çello çalıyor ve bunu çok " +
		"seviyor.", "The user plays the cello in a quartet on Fridays and likes it."},
	{"ru", "По пятницам я играю на виолончели в квартете.", "Пользователь по пятницам играет на виолончели в " +
		"квартете.", "The user plays the cello in a quartet on Fridays."},
	{"ja", "金曜日は四重奏でチェロを弾いています。", "ユーザーは金曜日に四重奏でチェロを弾いている。", "The user plays the cello in a quartet on Fridays."},
	{"ar", "أعزف على التشيلو في رباعي كل يوم جمعة.", "المستخدم يعزف على التشيلو في رباعي كل يوم جمعة.", "The user plays the cello in a quartet on Fridays."},
}

// speakLanguages has a model that writes facts down in the user's language, one that does so when it is asked again, and one
// that writes English whatever it is asked.
func speakLanguages(ctx context.Context, s *system, size int) ([]figure, error) {
	var wrong, lost []string
	kept, wanted := 0, 0
	for _, t := range tongues[:size] {
		for _, kind := range []string{"right", "second", "stubborn"} {
			if t.english == "" && kind != "right" {
				continue
			}
			stored, err := s.hear(ctx, t, kind)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", t.lang, kind, err)
			}
			for _, m := range stored {
				if m.Content != t.fact {
					wrong = append(wrong, fmt.Sprintf("%s, %s: %s", t.lang, kind, m.Content))
				}
			}
			if kind == "stubborn" {
				continue
			}
			wanted++
			if slices.ContainsFunc(stored, func(m memory) bool { return m.Content == t.fact && m.Status == "active" }) {
				kept++
			} else {
				lost = append(lost, fmt.Sprintf("%s, %s: %s", t.lang, kind, t.fact))
			}
		}
	}
	return []figure{
		informs("languages", float64(size)),
		none("facts in another language than the user's", len(wrong), "", wrong...),
		exactly("facts in the user's language, kept", kept, wanted, "", lost...),
	}, nil
}

// hear lets a model hear a sentence, and returns what is remembered.
func (s *system) hear(ctx context.Context, t tongue, kind string) ([]memory, error) {
	var mu sync.Mutex
	calls := 0
	s.model.play(canned{extract: func(asked *extraction) (facts []fact) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		text := t.fact
		if kind == "stubborn" || kind == "second" && calls == 1 {
			text = t.english
		}
		for _, one := range asked.messages {
			if strings.Contains(one.text, t.says) {
				facts = append(facts, keep(text, t.says).from(one.alias))
			}
		}
		return facts
	}})
	p, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now().Add(-time.Hour)
	if err := p.tellAndLearn(ctx, at(now, fromUser, t.says), at(now, fromAssistant, "♪")); err != nil {
		return nil, err
	}
	return p.memories(ctx)
}
