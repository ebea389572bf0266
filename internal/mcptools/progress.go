package mcptools

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/streaming"
)

// progress tells a client that asked for it how much of a reply there is.
type progress struct {
	session  *mcp.ServerSession
	token    any // nil when the client did not ask, or has gone
	interval time.Duration
	told     time.Time
}

func (s *Server) progressOf(call *mcp.CallToolRequest) *progress {
	return &progress{session: call.Session, token: call.Params.GetProgressToken(), interval: s.ProgressInterval}
}

// tell notifies the client of a piece of the reply, unless it was notified just now. The end is told by the
// result.
func (p *progress) tell(ctx context.Context, chunk streaming.Chunk) {
	if p.token == nil || chunk.End != nil || time.Since(p.told) < p.interval {
		return
	}
	p.told = time.Now()
	chars := chunk.Offset + utf8.RuneCount(chunk.Text)
	err := p.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: p.token, Progress: float64(chars), Message: fmt.Sprintf("%d characters", chars),
	})
	if err != nil {
		p.token = nil
	}
}
