package postgres

import (
	"context"
	"encoding/json"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Graph reads and writes the graph of what users' memories are about.
type Graph struct{ Pool *pgxpool.Pool }

var (
	_ api.Graph   = (*Graph)(nil)
	_ graph.Store = (*Graph)(nil)
)

// mostEdges is how many relationships one answer has, and half of how many entities.
const mostEdges = 500

// ReadGraph reads a part of the user's graph.
func (g *Graph) ReadGraph(ctx context.Context, user auth.Principal, query api.GraphQuery) (graph.Answer, error) {
	params := graphParams(query)
	var answer graph.Answer
	err := sendAs(ctx, g.Pool, user, "read graph", func(batch *pgx.Batch) {
		answer = graph.Answer{Entities: []graph.Node{}, Relationships: []graph.Edge{}}
		dbsqlc.ReadGraph.Read(batch, params, func(row dbsqlc.ReadGraphRow) {
			if row.Kind == "node" {
				answer.Entities = append(answer.Entities, graph.Node{Name: row.Name, Type: graph.Type(row.What), Mentions: row.Mentions})
				return
			}
			answer.Relationships = append(answer.Relationships, graph.Edge{
				Source: row.Name, Relationship: row.What, Target: row.Target,
				Valid: row.Valid, ValidFrom: row.ValidFrom, ValidTo: row.ValidTo, MemoryID: row.MemoryID,
			})
		})
	})
	return answer, err
}

// graphParams begins at the entity that the query names. A question begins at the entities that its words name, or else at
// the user, if it was understood.
func graphParams(query api.GraphQuery) dbsqlc.ReadGraphParams {
	question := graph.ParseQuestion(query.Text)
	params := dbsqlc.ReadGraphParams{
		AsOf: nullZero(query.Moment), FromName: query.Entity, Depth: query.Depth, Most: mostEdges,
		OnlyValid: query.Text != "" && query.Moment.IsZero(), Everything: query.Entity == "" && query.Text == "",
		Relationships: question.Relationships, Verbs: question.Verbs, Types: []string{},
	}
	if query.Entity == "" {
		params.FromWords, params.FromUser = question.Words, question.Understood()
	}
	if query.Relationship != "" {
		params.Relationships, params.Verbs = []string{graph.Verb(query.Relationship)}, []string{}
	}
	for _, t := range question.Types {
		params.Types = append(params.Types, string(t))
	}
	if query.Type != "" {
		params.Types = []string{query.Type}
	}
	return params
}

// NextUser returns a user who has memories without a graph.
func (g *Graph) NextUser(ctx context.Context, but []uuid.UUID) (uuid.UUID, error) {
	users, err := try(ctx, g.Pool, dbsqlc.NextGraphUser.All, append([]uuid.UUID{}, but...))
	if err != nil || len(users) == 0 {
		return uuid.Nil, failed("find users without a graph", err)
	}
	return users[0], nil
}

// Unlinked returns memories without a graph, with the rights of their user.
func (g *Graph) Unlinked(ctx context.Context, user uuid.UUID, most int) ([]graph.Memory, error) {
	var memories []graph.Memory
	err := sendAsRemembered(ctx, g.Pool, user, "read memories without a graph", func(batch *pgx.Batch) {
		dbsqlc.ReadUnlinked.Read(batch, most, all(&memories))
	})
	return memories, err
}

// Link writes the entities found in memories that are still the same, with the rights of their user. A memory of which they cannot
// be stored has none.
func (g *Graph) Link(ctx context.Context, user uuid.UUID, memories []graph.Memory, found []graph.Found) (int, error) {
	linked, err := g.link(ctx, user, memories, found)
	switch {
	case unstorable(err) == "":
		return linked, err
	case len(memories) == 1:
		return g.link(ctx, user, memories, make([]graph.Found, 1))
	}
	for n := range memories {
		one, err := g.Link(ctx, user, memories[n:n+1], found[n:n+1])
		if linked += one; err != nil {
			return linked, err
		}
	}
	return linked, nil
}

func (g *Graph) link(ctx context.Context, user uuid.UUID, memories []graph.Memory, found []graph.Found) (int, error) {
	var params dbsqlc.LinkMemoriesParams
	for n, of := range found {
		memory := memories[n]
		entities, err := json.Marshal(of.Entities)
		if err != nil {
			return 0, failed("encode entities", err)
		}
		relationships, err := json.Marshal(of.Relationships)
		if err != nil {
			return 0, failed("encode relationships", err)
		}
		params.Ids, params.Versions = append(params.Ids, memory.ID), append(params.Versions, memory.Version)
		params.Entities, params.Relationships = append(params.Entities, string(entities)), append(params.Relationships, string(relationships))
	}
	var linked int64
	err := sendAsRemembered(ctx, g.Pool, user, "link memories", func(batch *pgx.Batch) {
		dbsqlc.LockMemoryOwner.Queue(batch, struct{}{})
		dbsqlc.LinkMemories.Queue(batch, params).Exec(counts(&linked))
	})
	return int(linked), err
}
