package history

import (
	"context"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/graph"
)

// Graph reads the graph of what a user's memories are about, with the user's rights.
type Graph interface {
	// ReadGraph returns the part of the graph that is asked for; an entity that is unknown has none.
	ReadGraph(ctx context.Context, user auth.Principal, query GraphQuery) (graph.Answer, error)
}

// GraphQuery asks for a part of the graph. The zero value asks for all of it.
type GraphQuery struct {
	Entity       string `query:"entity,omitempty" maxLength:"100" description:"The name of an entity, in any case: what is said of it. User is the user."`
	Relationship string `query:"relationship,omitempty" maxLength:"100" description:"Only relationships of this name: lives_in."`
	Type         string `query:"type,omitempty" enum:"person,organization,place,project,product,tool,concept,condition,event,other" doc:"type"`
	Depth        int    `query:"depth" minimum:"1" maximum:"3" default:"1" description:"How many relationships away from the entity what is shown may be."`
	AsOf         string `query:"as_of,omitempty" doc:"as_of"`
	// Text is a question; what it names adds to the other fields.
	Text   string `query:"q,omitempty" maxLength:"500" description:"A question such as: what tools do I like. It is answered by what is true now, or at as_of."`
	Format string `query:"format,omitempty" enum:"json,mermaid,dot" default:"json" doc:"format"`

	// Moment is AsOf, set by Check; zero for none.
	Moment time.Time
}

// check reads the time.
func (q *GraphQuery) check(wrong problems) error {
	q.Entity, q.Text = strings.TrimSpace(q.Entity), strings.TrimSpace(q.Text)
	if q.AsOf != "" {
		q.Moment = wrong.moment("as_of", q.AsOf)
	}
	return nil
}
