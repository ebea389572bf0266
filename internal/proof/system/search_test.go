package system

import (
	"net/http"
	"net/url"
	"testing"
)

// A user's messages are found by that user only, and counted.
func TestSearchAndStats(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	said := r.Say("", "My cello teacher is called Ilse, and 東京 is far away.")
	for query, want := range map[string]int{"teachers": 1, "東京": 1, "北京": 0, `"is far away"`: 1, "ilse -cello": 0} {
		results, _ := r.Call(http.MethodGet, "/v1/search?role=user&q="+url.QueryEscape(query), nil).JSON(t)["results"].([]any)
		if len(results) != want {
			t.Errorf("%s: %v", query, results)
		}
	}
	stranger := r.stranger()
	if got := stranger.Call(http.MethodGet, "/v1/search?q=teacher", nil); got.Status != http.StatusOK || got.Text != "{\"results\":[]}\n" {
		t.Errorf("a stranger: %d %s", got.Status, got.Text)
	}
	if got := stranger.Call(http.MethodGet, "/v1/search?q=teacher&chat_id="+said.ChatID, nil); got.Code() != "chat_not_found" {
		t.Errorf("in another's chat: %d %s", got.Status, got.Text)
	}
	stats := r.Call(http.MethodGet, "/v1/stats", nil).JSON(t)
	reply, _ := stats["tokens"].(map[string]any)["reply"].(map[string]any)
	if stats["chats"] != 1.0 || stats["turns"] != 1.0 || stats["messages"] != 2.0 || reply["input"].(float64) < 10 {
		t.Errorf("%v", stats)
	}
}
