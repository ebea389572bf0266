package mcptools

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/streaming"
)

func TestReplyThatWaitsForItsUser(t *testing.T) {
	t.Parallel()
	out := askOutput{Note: "A new thread was started."}
	waiting := &streaming.Awaiting{Open: []streaming.OpenCall{{CallID: "c1", Name: "take_photo"}, {CallID: "c2", Name: "order_taxi"}}}
	require.NoError(t, out.end(streaming.Terminal{Awaiting: waiting}))
	assert.Equal(t, "tool_calls", out.FinishReason)
	assert.Equal(t, "A new thread was started. The reply waits for the user, who answers these calls in the app: take_photo, order_taxi. "+
		"Another prompt goes on without them.", out.Note)
}
