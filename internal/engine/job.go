package engine

func (s *Server) deliver([]Emission) {}

type meters struct{}

func newMeters(*Server) *meters { return &meters{} }

type responseStore struct{}

func newResponseStore(int) *responseStore { return &responseStore{} }
