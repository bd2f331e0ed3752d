package ui

import (
	"sync"
	"time"
)

// Screens are renderers that draw again by themselves.
type Screens struct {
	mu    sync.Mutex
	ticks []func(now time.Time)
}

// Add adds the function by which a renderer draws again.
func (s *Screens) Add(tick func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticks = append(s.ticks, tick)
}

// Tick makes all of them draw again.
func (s *Screens) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tick := range s.ticks {
		tick(time.Now())
	}
}
