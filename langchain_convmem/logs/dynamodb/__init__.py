"""A message log in a DynamoDB table, and plain maps as attribute values."""

from langchain_convmem.logs.dynamodb.client import make_table_definition
from langchain_convmem.logs.dynamodb.log import DynamoDBLog
from langchain_convmem.logs.dynamodb.values import to_dynamodb

__all__ = ["DynamoDBLog", "make_table_definition", "to_dynamodb"]
