"""Optimality Tightening one sample at a time: the bounds as the paper's sums, the choice as in the authors' code."""

from __future__ import annotations


def bounds(rewards, gamma, q_taken, best, terminated, centre, neighbours=4):
    """Of one episode: y, the list of lower bounds and the list of upper bounds of one step that did not terminate.

    ``best[i]`` is max_a Q̂ of state i, for the T + 1 states; the one after termination is worth 0.
    """
    steps = len(rewards)
    best = list(best)
    if terminated:
        best[steps] = 0.0
    j = centre

    def forward(k):
        return sum(gamma**i * rewards[j + i] for i in range(k + 1)) + gamma ** (k + 1) * best[j + k + 1]

    def backward(k):
        first = j - k - 1
        given = sum(gamma ** (i - k - 1) * rewards[first + i] for i in range(k + 1))
        return gamma ** -(k + 1) * q_taken[first] - given

    lower = [forward(k) for k in range(1, neighbours) if j + k < steps]
    if terminated:
        lower.append(monte_carlo(rewards, gamma)[j])
    upper = [backward(k) for k in range(neighbours) if j - k - 1 >= 0] if gamma > 0 else []
    return forward(0), lower, upper


def monte_carlo(rewards, gamma):
    """The discounted return from each step to the last."""
    returns, following = [], 0.0
    for reward in reversed(rewards):
        following = reward + gamma * following
        returns.append(following)
    return returns[::-1]


def target(v0, lower, upper, q, weight_of_y, is_terminal, episode_return):
    """What the authors' code regresses to; a neighbour that is missing is replaced by q."""
    if is_terminal:
        return episode_return
    v_max = max([*lower, q])
    v_min = min([*upper, q])
    if v_max - 0.1 > q > v_min + 0.1:
        v1 = 0.5 * v_max + 0.5 * v_min
    elif v_max - 0.1 > q:
        v1 = v_max
    elif v_min + 0.1 < q:
        v1 = v_min
    else:
        v1 = v0
    return weight_of_y * v0 + (1 - weight_of_y) * v1
