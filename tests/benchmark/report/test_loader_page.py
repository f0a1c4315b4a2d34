"""The page of a loader, which a Python loop reads without a queue."""

from results import ONE_ELEMENT, result_of

from ipufeed.benchmark.report.page import page


def of_a_loader(**changes):
    result = result_of(**changes)
    result["dataset"]["loader"] = "torch DataLoader"
    series = result["series"]
    series["queue_depth"] = [0.0] * len(series["queue_depth"])
    return result


def test_no_queue_is_mentioned():
    text = page(of_a_loader())

    assert "queue" not in text.partition("Time between elements")[0]
    assert "the loop copied and counted" in text
    assert "the consumer worked" in text
    assert "the dataset waited" not in text


def test_through_the_device_there_is_one():
    result = of_a_loader()
    result["links"] = {"slowest": "dataset"}
    text = page(result)

    assert "the dataset waited because the queue was full" in text
    assert "The queue was nearly always empty" in text


def test_one_element_is_one():
    assert "1 element in" in page(ONE_ELEMENT)
