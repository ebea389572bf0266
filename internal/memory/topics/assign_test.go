package topics_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

func TestTurnsFindTheirTopics(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID := r.chat()
	report := r.talk(chatID, "My cello needs new rosin soon", "The bow slips although its rosin is fresh", "Does marzipan contain walnut oil always?",
		"Are hazelnut and almond true nuts?", "ok, thanks", "Which spiccato studies train the bow hand?")
	r.wantNumbers(chatID, 1, 1, 2, 2, 2, 1)
	assert.Equal(t, (topics.AssignReport{Turns: 6, Matched: 3, Stayed: 1, New: 2}), report)
	r.wantTopic(chatID, 1, "title, title_seq, access_count, centroid_turns", "Cello needs new rosin 1 2 3")
	r.wantTopic(chatID, 2, "title_seq, access_count", "5 2")
	testkit.Want(t, r.pool, true,
		"select t.created_at = m.created_at from topics t join messages m on m.chat_id = t.chat_id and m.seq = 5 where t.number = 2")
	assert.Equal(t, (topics.AssignReport{}), r.assign(chatID), "again")
	r.wantNumbers(chatID, 1, 1, 2, 2, 2, 1)
}

// A turn about something else waits for the next one. If that goes on with it, both are a topic; if it goes back, none is made.
func TestATopicBeginsWithTwoTurns(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID := r.chat()
	r.talk(chatID, "My cello needs new rosin soon")
	assert.Equal(t, (topics.AssignReport{Turns: 1, Stayed: 1}), r.talk(chatID, "Does marzipan contain walnut oil always?"))
	r.wantNumbers(chatID, 1, 1)
	r.wantWanted(chatID, false, "while there is no next turn")
	assert.Equal(t, (topics.AssignReport{Turns: 2, Matched: 1, New: 1, Corrected: 1}), r.talk(chatID, "Are hazelnut and almond true nuts?"))
	r.wantNumbers(chatID, 1, 2, 2)
	r.wantTopic(chatID, 1, "centroid_turns", "1")
	r.wantTopic(chatID, 2, "title_seq, centroid_turns", "3 2")
	r.talk(chatID, "My telescope shows a nebula tonight", "Is marzipan made without walnut sometimes?")
	r.wantNumbers(chatID, 1, 2, 2, 2, 2)
	assert.Equal(t, (topics.AssignReport{}), r.assign(chatID), "again")
}

// Vectors come in any order: a turn about something else waits for that of the next one, as long as it takes, and a short one for that
// of the turn that it stays with.
func TestATurnWaitsForTheVectorOfTheNextOne(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"", "Is marzipan made without walnut sometimes?"} {
		r := newAssignRig(t, nil)
		chatID := r.chat()
		questions, want := []string{"My cello needs new rosin soon", "Does marzipan contain walnut oil always?", "Are hazelnut and almond true nuts?"}, []int{1, 2, 2}
		if after != "" {
			questions, want = append(questions, after), append(want, 2)
		}
		r.say(chatID, questions...)
		r.index(chatID)
		r.embed(chatID)
		testkit.Exec(t, r.pool, "update turn_index set embedding = null, embedding_model = null where chat_id = $1 and seq = 5", chatID)
		r.assign(chatID)
		r.assign(chatID)
		r.wantTopic(chatID, 1, "centroid_turns", "1")
		r.embed(chatID)
		r.assign(chatID)
		r.wantNumbers(chatID, want...)
		assert.Equalf(t, (topics.AssignReport{}), r.assign(chatID), "%q: again", after)
	}
}

// Without vectors all turns have one topic, and are told apart when vectors come.
func TestTopicsAreChosenAgainWhenVectorsCome(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID := r.chat()
	questions := []string{
		"My cello needs new rosin soon", "Does marzipan contain walnut oil always?", "Are hazelnut and almond true nuts?", "ok, thanks",
		"The bow slips although its rosin is fresh",
	}
	r.say(chatID, questions...)
	r.index(chatID)
	if report := r.assign(chatID); report.New != 1 || report.Stayed != 4 {
		t.Errorf("%+v", report)
	}
	r.wantNumbers(chatID, 1, 1, 1, 1, 1)
	r.wantWanted(chatID, false, "without vectors")
	r.embed(chatID)
	r.wantWanted(chatID, true, "with vectors")
	report := r.assign(chatID)
	assert.Truef(t, report.Turns == 5 && report.Corrected == 3 && report.New == 1, "%+v", report)
	r.wantNumbers(chatID, 1, 2, 2, 2, 1)
	r.wantTopic(chatID, 1, "message_count, access_count", "4 1")
	r.wantWanted(chatID, false, "again")
}

// A question that was indexed while its reply was running grows by the reply.
func TestATurnThatGrowsIsCountedOnce(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID := r.chat()
	r.talk(chatID, "My cello needs new rosin soon")
	testkit.Exec(t, r.pool, `insert into messages (chat_id, role, content, token_count)
		values ($1, 'user', 'The bow slips although its rosin is fresh', 8)`, chatID)
	r.talk(chatID)
	r.wantNumbers(chatID, 1, 1)
	testkit.Exec(t, r.pool, "insert into messages (chat_id, role, content, token_count) values ($1, 'assistant', 'Once a week.', 4)", chatID)
	r.index(chatID)
	r.wantSound(chatID)
	r.embed(chatID)
	r.assign(chatID)
	r.wantNumbers(chatID, 1, 1)
	r.wantTopic(chatID, 1, "message_count, access_count, centroid_turns", "4 1 2")
}

func TestWhichChatsHaveTopics(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	for _, c := range []struct {
		server, chat, strategy string
		brief, want            bool
	}{
		{"off", "auto", "summary", true, false}, {"off", "on", "summary", true, false}, {"off", "off", "summary", true, false},
		{"auto", "auto", "summary", false, false}, {"auto", "auto", "summary", true, true}, {"auto", "on", "summary", false, true},
		{"auto", "off", "summary", true, false}, {"auto", "auto", "simple", false, false}, {"auto", "on", "simple", false, true},
		{"on", "auto", "summary", false, true}, {"on", "off", "summary", true, false}, {"on", "on", "summary", false, true}, {"on", "auto", "simple", false, true},
	} {
		r.config.Mode = c.server
		chatID := testkit.Ask[uuid.UUID](t, r.pool, "insert into chats (user_id, title, topics, memory_strategy) values ($1, '', $2, $3) returning id",
			r.user, c.chat, c.strategy)
		r.say(chatID, "My cello needs new rosin soon")
		r.index(chatID)
		r.embed(chatID)
		if c.brief {
			testkit.Exec(t, r.pool, "update conversation_briefs set covered_seq = 1 where chat_id = $1", chatID)
		}
		wanted, err := r.engine().Wanted(t.Context(), chatID)
		report := r.assign(chatID)
		rows := testkit.Ask[int](t, r.pool, "select count(*) from topics where chat_id = $1", chatID)
		assert.Truef(t, err == nil && wanted == c.want && (report.New == 1) == c.want && (rows == 1) == c.want,
			"%+v: wanted %v, %+v, %d topics, %v", c, wanted, report, rows, err)
	}
}

// What was cleared never comes back: the same subject begins a new topic.
func TestClearedTopicsAreNotJoined(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID := r.chat()
	r.talk(chatID, "My cello needs new rosin soon")
	testkit.Exec(t, r.pool, "update conversation_briefs set cleared_seq = 2 where chat_id = $1", chatID)
	r.talk(chatID, "The bow slips although its rosin is fresh")
	r.wantNumbers(chatID, 1, 2)
}

// A turn that its user merged into a topic from before a clear may find another topic once it has a vector.
func TestATurnLeavesATopicFromBeforeAClear(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID := r.chat()
	r.talk(chatID, "My cello needs new rosin soon", "The bow slips although its rosin is fresh")
	testkit.Exec(t, r.pool, "update conversation_briefs set cleared_seq = 4 where chat_id = $1", chatID)
	r.say(chatID, "Does marzipan contain walnut oil always?")
	r.index(chatID)
	r.assign(chatID)
	testkit.Want(t, r.as("throughline_app"), true, "select throughline.merge_topics($1, $2)", r.topicID(chatID, 2), r.topicID(chatID, 1))
	r.wantNumbers(chatID, 1, 1, 1)
	r.embed(chatID)
	report := r.assign(chatID)
	assert.Truef(t, report.Corrected == 1 && report.New == 1, "%+v", report)
	r.wantNumbers(chatID, 1, 1, 3)
	r.wantTopic(chatID, 1, "message_count, access_count", "4 0")
}

func TestAnArchivedTopicComesBack(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, func(c *topics.Assigner) { c.Settings.Max = 1 })
	chatID := r.chat()
	r.talk(chatID, "My cello needs new rosin soon", "Does marzipan contain walnut oil always?", "Are hazelnut and almond true nuts?")
	assert.Len(t, r.inserted(work.DecayTopics), 1, "decays")
	done, err := r.engine().Decay(t.Context(), testkit.Patience)
	require.Truef(t, err == nil && done == (topics.Decayed{Chats: 1, Archived: 1}), "%+v, %v", done, err)
	r.wantTopic(chatID, 1, "state, compacted_messages", "archived 2")
	r.wantTopic(chatID, 2, "state", "active")
	testkit.Want(t, r.pool, 1, "select count(*) from turn_index where resting and embedding is null")
	r.embed(chatID) // not turns that rest
	testkit.Want(t, r.pool, 1, "select count(*) from turn_index where embedding is null")
	report := r.talk(chatID, "The bow slips although its rosin is fresh")
	assert.Truef(t, report.Returned == 1 && report.Matched == 1, "%+v", report)
	r.wantNumbers(chatID, 1, 2, 2, 1)
	r.wantTopic(chatID, 1, "state, compacted_seq, rehydrated", "active 0 t")
	r.embed(chatID)
	testkit.Want(t, r.pool, 0, "select count(*) from turn_index where embedding is null or resting")
}

// What a person calls unimportant is archived at the next look, not when it would have faded.
func TestAnImportanceMovesTheNextLook(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, func(c *topics.Assigner) { c.Settings.Max = 1 })
	chatID := r.chat()
	r.talk(chatID, "My cello needs new rosin soon", "Does marzipan contain walnut oil always?", "Are hazelnut and almond true nuts?")
	testkit.Exec(t, r.pool, "update topics set last_active_at = now()")
	decay := func() int {
		done, err := r.engine().Decay(t.Context(), testkit.Patience)
		require.NoError(t, err)
		return done.Archived
	}
	assert.Equal(t, 0, decay(), "fresh topics are archived")
	testkit.Want(t, r.pool, true, "select topics_fade_at > now() + interval '4 days' from conversation_briefs where chat_id = $1", chatID)
	testkit.Exec(t, r.as("authenticated"), "update topics set importance = 0 where number = 1")
	assert.Equal(t, 1, decay(), "archived")
	r.wantTopic(chatID, 1, "state", "archived")
}

func TestTopicsThatAreTheSameAreMerged(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, func(c *topics.Assigner) { c.Settings.Similarity, c.Settings.Continuity = 2, -2 }) // each turn but the last begins a topic
	chatID := r.chat()
	r.talk(chatID, "My cello needs new rosin soon", "Does marzipan contain walnut oil always?", "The bow slips although its rosin is fresh",
		"Which spiccato studies train the bow hand?", "ok, thanks")
	r.wantNumbers(chatID, 1, 2, 3, 4, 4)
	testkit.Exec(t, r.pool, "update topics set title = 'My bow', title_seq = null where number = 4") // as if renamed
	done, err := r.engine().Merge(t.Context(), testkit.Patience)
	require.Truef(t, err == nil && done == (topics.Merging{Chats: 1, Merged: 1}), "%+v, %v", done, err)
	r.wantNumbers(chatID, 1, 2, 1, 4, 4)
	r.wantTopic(chatID, 3, "state, merged_into, centroid is null", "merged "+r.topicID(chatID, 1).String()+" t")
	r.wantTopic(chatID, 1, "stale, centroid_turns", "t 2")
	assert.Equal(t, []uuid.UUID{r.topicID(chatID, 1)}, r.inserted(work.CompactTopic))
	near := testkit.Ask[float64](t, r.pool,
		`select -(t.centroid operator(throughline.<#>) i.embedding) from topics t join turn_index i on i.seq = 1 where t.number = 1`)
	assert.Truef(t, near >= .9 && near <= 1.01, "the centroid is at %.2f of its first turn", near)
	// And by hand, renamed or not.
	merged := testkit.Ask[bool](t, r.as("throughline_app"), "select throughline.merge_topics($1, $2)", r.topicID(chatID, 4), r.topicID(chatID, 1))
	r.wantNumbers(chatID, 1, 2, 1, 1, 1)
	assert.True(t, merged)
	r.wantTopic(chatID, 1, "message_count", "8")
}

func TestWhatCannotBeMerged(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID, other := r.chat(), r.chat()
	r.talk(chatID, "My cello needs new rosin soon", "Does marzipan contain walnut oil always?", "Are hazelnut and almond true nuts?")
	r.talk(other, "My telescope shows a nebula tonight")
	one, two, foreign := r.topicID(chatID, 1), r.topicID(chatID, 2), r.topicID(other, 1)
	conn := r.as("throughline_app")
	merge := func(from, into uuid.UUID) bool {
		return testkit.Ask[bool](t, conn, "select throughline.merge_topics($1, $2)", from, into)
	}
	assert.True(t, !merge(one, one) && !merge(one, foreign) && !merge(foreign, one) && !merge(one, uuid.New()) && !merge(uuid.New(), one),
		"it was merged")
	r.user = testkit.NewUser(t, r.db)
	testkit.Want(t, r.as("throughline_app"), false, "select throughline.merge_topics($1, $2)", one, two)
	assert.True(t, merge(one, two) && !merge(one, two) && !merge(two, one), "it was not merged, or twice")
	r.wantNumbers(chatID, 2, 2, 2)
}

// When another model makes the vectors, topics wait for theirs, and go on as they were.
func TestAnotherEmbeddingModel(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID := r.chat()
	r.talk(chatID, "My cello needs new rosin soon", "Does marzipan contain walnut oil always?", "Are hazelnut and almond true nuts?")
	r.use("others")
	r.say(chatID, "The bow slips although its rosin is fresh")
	r.index(chatID)
	report := r.assign(chatID)
	assert.Truef(t, report.New == 0 && report.Stayed == 1, "before the vectors are made again: %+v", report)
	r.embed(chatID)
	report = r.assign(chatID)
	assert.Truef(t, report.Corrected == 1 && report.New == 0, "%+v", report)
	r.wantNumbers(chatID, 1, 2, 2, 1)
	r.wantTopic(chatID, 1, "embedding_model", "others")
	r.wantTopic(chatID, 2, "embedding_model", "others")
}

func TestAnOldChatIsAssignedInBatches(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID := r.chat()
	r.say(chatID, slices.Repeat([]string{"My cello needs new rosin soon"}, 230)...)
	r.index(chatID)
	r.embed(chatID)
	first := r.assign(chatID)
	assert.Truef(t, first.Turns == 200 && first.More, "%+v", first)
	assert.Len(t, r.inserted(work.AssignTopics), 1, "jobs")
	second := r.assign(chatID)
	assert.Truef(t, second.Turns == 30 && !second.More, "%+v", second)
	r.wantSound(chatID)
	r.wantTopic(chatID, 1, "message_count", "460")
	assert.Equal(t, slices.Repeat([]uuid.UUID{r.topicID(chatID, 1)}, 2), r.inserted(work.CompactTopic))
}

func TestNothingIsLeftToAssign(t *testing.T) {
	t.Parallel()
	r := newAssignRig(t, nil)
	chatID := r.chat()
	r.say(chatID, "My cello needs new rosin soon")
	r.index(chatID)
	testkit.Exec(t, testkit.Connect(t, r.db.AdminDSN), "delete from auth.users where id = $1", r.user)
	assert.Equal(t, (topics.AssignReport{}), r.assign(chatID))
	r.wantWanted(chatID, false, "without its user")
}
