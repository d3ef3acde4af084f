"""A transformer with dropout in skorch: tokens and masks as a dict of arrays. Weights are random: nothing is fetched.

Run with ``python examples/other_models/hugging_face.py``. It needs transformers.
"""

import numpy as np
import torch
from skorch import NeuralNetClassifier
from skorch.helper import SliceDict
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from skactive import StochasticBatchQuery
from skactive.posterior import check_posterior


class Bert(nn.Module):
    def __init__(self, config):
        super().__init__()
        # With weights: BertForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
        self.bert = BertForSequenceClassification(config)

    def forward(self, input_ids, attention_mask):
        return self.bert(input_ids=input_ids, attention_mask=attention_mask).logits


what = ["invoice", "parcel", "refund", "password", "login", "account"]
how = ["my {} is late", "where is the {}", "the {} is wrong again", "please help me with the {} today"]
texts = [sentence.format(word) for word in what for sentence in how]
y = np.repeat([0, 0, 0, 1, 1, 1], len(how))

words = sorted({word for text in texts for word in text.split()})
vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *words])}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenize = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
# All rows have one length: then a draw may see them together. With weights: AutoTokenizer.from_pretrained(...)
tokens = tokenize(texts, padding="max_length", max_length=8, truncation=True, return_tensors="np")
X = SliceDict(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])

torch.manual_seed(0)
config = BertConfig(
    vocab_size=len(vocabulary),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=16,
)
net = NeuralNetClassifier(
    Bert,
    module__config=config,
    criterion=nn.CrossEntropyLoss,
    optimizer=torch.optim.AdamW,
    lr=1e-3,
    max_epochs=30,
    batch_size=8,
    train_split=None,
    verbose=0,
)
labelled = np.arange(0, 24, 2)
net.fit(X[labelled], y[labelled])
rest = np.setdiff1d(np.arange(24), labelled)
rows = rest[StochasticBatchQuery("bald", n_draws=20, random_state=0).select(net, X[rest], n_instances=3)]
print([texts[row] for row in rows])
check_posterior(net, X, n_draws=20)
